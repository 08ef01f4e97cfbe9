#include "cli/up/child_plan.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include "cli/python_finder.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/device/core_plan.h"
#include "common/device/device_choice.h"
#include "common/device/nvml.h"
#include "common/sandbox/capabilities.h"
#include "common/sandbox/sandbox_host.h"
#include "common/service/runtime_dir.h"

namespace pike::cli {
namespace {

constexpr int kProcesses = 4;  // with `pike up` itself, the last
constexpr int kPortMax = 65'535;

// Whether something listens on the loopback port, as far as one can tell before the child binds it.
bool IsPortBusy(int port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0;
}

absl::Status ResolveMetrics(const std::string& base_port, UpSettings* settings) {
  ASSIGN_OR_RETURN(const std::vector<int> ports, MetricsPorts(base_port));
  if (ports.empty())
    settings->metrics_addresses.assign(kProcesses, "off");
  for (const int port : ports) {
    const bool is_busy = port != 0 && IsPortBusy(port);
    if (is_busy) {
      settings->warnings.push_back(absl::StrCat("port ", port,
                                                " is taken: metrics go to a free port "
                                                "instead (choose with --metrics-base-port)"));
    }
    settings->metrics_addresses.push_back(absl::StrCat("127.0.0.1:", is_busy ? 0 : port));
  }
  return absl::OkStatus();
}

absl::Status ResolveTarget(const std::string& listen, UpSettings* settings) {
  settings->target = listen.empty() ? service::DefaultTarget(settings->runtime_dir) : listen;
  RETURN_IF_ERROR(service::CheckListenTarget(settings->target));
  if (!absl::StartsWith(settings->target, "unix:") && absl::EndsWith(settings->target, ":0"))
    return absl::InvalidArgumentError("--listen needs a port: clients could not find port 0");
  return absl::OkStatus();
}

// Caches end up in sandboxes and in compilers' command lines, which want clean absolute paths.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute =
      path.empty() ? std::filesystem::path() : std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

}  // namespace

absl::StatusOr<UpSettings> ResolveUpOptions(const UpOptions& options,
                                            const std::string& runtime_dir) {
  UpSettings settings;
  settings.compile_slots = options.compile_slots;
  settings.gpu_slots = options.gpu_slots;
  settings.cache_dir = Absolute(options.cache_dir);
  settings.is_sandbox_required = options.is_sandbox_required;
  settings.has_canaries = options.canaries != "off";
  std::vector<std::string> problems;
  const auto check = [&problems](const absl::Status& status) {
    if (!status.ok())
      problems.push_back(std::string(status.message()));
  };
  const auto take = [&check](absl::StatusOr<std::string> found, std::string* place) {
    check(found.status());
    if (found.ok())
      *place = *std::move(found);
  };
  std::vector<device::GpuInfo> gpus;
  const auto monitor = device::OpenNvml();
  if (monitor.ok()) {
    auto found = (*monitor)->List();
    check(found.status());
    if (found.ok())
      gpus = *std::move(found);
  }
  check(ResolveGpus(options.gpus, gpus, &settings));
  take(service::OpenRuntimeDir(runtime_dir), &settings.runtime_dir);
  check(ResolveTarget(options.listen, &settings));
  take(service::OpenStateDir(Absolute(options.store)), &settings.state_dir);
  take(FindProgram("pike-coordinator"), &settings.coordinator);
  take(FindProgram("pike-compile-worker"), &settings.compile_worker);
  take(FindProgram("pike-gpu-worker"), &settings.gpu_worker);
  take(FindPython(options.python), &settings.python);
  check(ResolveMetrics(options.metrics_base_port, &settings));
  if (options.is_sandbox_required)
    check(sandbox::RequireAllLayers(sandbox::DetectCapabilities({})));
  if (!problems.empty())
    return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  return settings;
}

absl::StatusOr<std::vector<int>> MetricsPorts(const std::string& base_port) {
  if (base_port == "off")
    return std::vector<int>();
  int base = 0;
  if (!absl::SimpleAtoi(base_port, &base) || base < 0 || base > kPortMax - kProcesses) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics-base-port wants a port number or \"off\", not \"", base_port, "\""));
  }
  if (base == 0)
    return std::vector<int>(kProcesses, 0);
  return std::vector<int>{base, base + 1, base + 2, base + 3};
}

absl::Status ResolveGpus(const std::string& gpus, const std::vector<device::GpuInfo>& present,
                         UpSettings* settings) {
  const auto devices = device::ChooseDevices(gpus, present);
  if (!devices.ok())
    return absl::InvalidArgumentError(absl::StrCat("--gpus: ", devices.status().message()));
  settings->devices = gpus == "none" ? "cpu" : gpus;
  settings->gpu_classes = {(*devices)[0].gpu_class};
  if ((*devices)[0].kind == device::Device::Kind::kCuda) {
    // The GPU worker comes to the same plan.
    const device::CorePlan plan =
        device::PlanCores(device::OwnCores(), static_cast<int>(devices->size()));
    settings->compile_cores = device::CoresText(plan.others);
  }
  // The worker turns to the CPU if its PyTorch is built without CUDA.
  if (gpus == "auto" && settings->gpu_classes[0] != "cpu")
    settings->gpu_classes.push_back("cpu");
  return absl::OkStatus();
}

std::vector<ChildPlan> PlanChildren(const UpSettings& settings) {
  const auto worker = [&settings](const std::string& name, const std::string& program, int slots,
                                  const std::string& metrics_address) {
    ChildPlan plan{name,
                   {program, "--service", settings.target, "--runtime-dir", settings.runtime_dir,
                    "--python", settings.python, "--metrics-address", metrics_address}};
    if (slots > 0)
      plan.argv.insert(plan.argv.end(), {"--slots", absl::StrCat(slots)});
    if (settings.is_sandbox_required)
      plan.argv.emplace_back("--require-sandbox");
    // In the state folder by default, under the names that workers choose for themselves.
    plan.argv.insert(plan.argv.end(),
                     {"--cache-dir",
                      settings.cache_dir.empty()
                          ? absl::StrCat(settings.state_dir, "/", absl::StripPrefix(name, "pike-"))
                          : absl::StrCat(settings.cache_dir, "/", name)});
    return plan;
  };
  ChildPlan coordinator{
      "pike-coordinator",
      {settings.coordinator, "--listen", settings.target, "--store", settings.state_dir,
       "--runtime-dir", settings.runtime_dir, "--metrics-address", settings.metrics_addresses[0]}};
  if (!settings.has_canaries)
    coordinator.argv.insert(coordinator.argv.end(), {"--canary-interval-s", "0"});
  // So that work waits for the GPU worker, which takes a while to start, and is not refused.
  for (const std::string& gpu_class : settings.gpu_classes)
    coordinator.argv.insert(coordinator.argv.end(), {"--gpu-class", gpu_class});
  ChildPlan compile_worker = worker("pike-compile-worker", settings.compile_worker,
                                    settings.compile_slots, settings.metrics_addresses[1]);
  if (!settings.compile_cores.empty())
    compile_worker.argv.insert(compile_worker.argv.end(), {"--cores", settings.compile_cores});
  ChildPlan gpu_worker = worker("pike-gpu-worker", settings.gpu_worker, settings.gpu_slots,
                                settings.metrics_addresses[2]);
  gpu_worker.argv.insert(gpu_worker.argv.end(), {"--devices", settings.devices});
  return {std::move(coordinator), std::move(compile_worker), std::move(gpu_worker)};
}

}  // namespace pike::cli
