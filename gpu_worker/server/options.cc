#include "gpu_worker/server/options.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include <CLI/CLI.hpp>
#include <absl/strings/str_cat.h>

namespace pike::gpu {
namespace {

constexpr int kUsageError = 2;
constexpr size_t kCoresPerSlot = 8;
// On a GPU most of an evaluation is a load, which needs a core, and waiting for one's turn.
constexpr size_t kCoresPerGpuSlot = 3;
constexpr size_t kGpuSlotsMin = 2;
constexpr size_t kGpuSlotsMax = 8;
constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMemoryGibMax = 16;

void Declare(CLI::App* app, Options* options) {
  app->add_option("--service", options->service,
                  "coordinator, e.g. unix:/run/pike.sock or 127.0.0.1:7300");
  app->add_option("--python", options->python, "interpreter with torch for judge and runners")
      ->required();
  app->add_option("--devices", options->devices,
                  "what to evaluate on: auto (GPUs if there are any, else the CPU), all (GPUs), "
                  "0,1 or GPU-UUIDs, cpu, simulated:N (N devices that compute on the CPU)")
      ->capture_default_str();
  app->add_option(
      "--slots", options->slots,
      "evaluations at once; operations that are timed exclude each other anyway "
      "(default: per GPU one per three of its cores, at most 8; on the CPU one per eight)");
  app->add_option("--warm", options->warm, "runner sandboxes kept ready (default: 2 per slot)");
  app->add_option("--threads", options->threads,
                  "torch threads of judge and runners (default: one per core; on GPUs at most 8)");
  app->add_option("--cache-dir", options->cache_dir,
                  "folder for artifacts and native parts (default: in the state folder)");
  app->add_option("--cache-gib", options->cache_gib, "artifacts kept on disk")
      ->capture_default_str();
  app->add_option("--memory-max", options->memory_gib,
                  "GiB of a runner (default: a third of the memory, at most 16)");
  app->add_option("--judge-memory-max", options->judge_gib,
                  "GiB of a judge (default: as for runners)");
  app->add_option("--build-memory-max", options->build_memory_gib, "GiB of one late build")
      ->capture_default_str();
  app->add_option("--drain-seconds", options->drain_seconds,
                  "after a stop, running evaluations may take this long to end")
      ->capture_default_str();
  app->add_option("--runtime-dir", options->runtime_dir, "folder of sockets, locks and addresses");
  app->add_option("--metrics-address", options->metrics_address,
                  "where /metrics is served; port 0: any, off: nowhere")
      ->capture_default_str();
  app->add_option("--uid-base", options->uid_base,
                  "as root: first uid of the sandboxes; workers of one host need their own")
      ->capture_default_str();
  app->add_flag("--without-cgroups", options->is_without_cgroups,
                "watch memory instead of limiting it by cgroups");
  app->add_flag("--require-sandbox", options->is_sandbox_required,
                "refuse to start where a layer of the sandbox is missing");
}

double MachineGib() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / kGib;
}

}  // namespace

std::vector<std::string> CheckOptions(const Options& options) {
  std::vector<std::string> problems;
  const auto check_range = [&problems](const char* name, double value, double min, double max) {
    if (value < min || value > max)
      problems.push_back(absl::StrCat(name, " must be between ", min, " and ", max));
  };
  check_range("--slots", static_cast<double>(options.slots), 0, 64);
  check_range("--warm", static_cast<double>(options.warm), 0, 64);
  check_range("--threads", options.threads, 0, 1024);
  check_range("--cache-gib", options.cache_gib, 0.01, 1024);
  check_range("--memory-max", options.memory_gib, 0, 4096);
  check_range("--judge-memory-max", options.judge_gib, 0, 4096);
  check_range("--build-memory-max", options.build_memory_gib, 0.5, 1024);
  check_range("--drain-seconds", options.drain_seconds, 0, 3600);
  check_range("--uid-base", options.uid_base, 1000, 4'000'000'000.0);
  if (::access(options.python.c_str(), X_OK) != 0)
    problems.push_back(absl::StrCat("--python ", options.python, " is not a program"));
  return problems;
}

void FillDefaults(const std::vector<device::Device>& devices, Options* options) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  if (options->slots == 0) {
    const bool is_cpu = devices[0].kind == device::Device::Kind::kCpu;
    const size_t count = devices.size();
    options->slots = is_cpu ? std::max<size_t>(count, cores / kCoresPerSlot)
                            : count * std::clamp<size_t>(cores / count / kCoresPerGpuSlot,
                                                         kGpuSlotsMin, kGpuSlotsMax);
  }
  if (options->warm == 0)
    options->warm = 2 * options->slots;
  if (options->memory_gib == 0)
    options->memory_gib = std::min(MachineGib() / 3, kMemoryGibMax);
  if (options->judge_gib == 0)
    options->judge_gib = options->memory_gib;
}

ParsedOptions ParseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  CLI::App app("Checks candidates against their task and times both, on this machine's devices.");
  app.footer(
      "Example:\n  pike-gpu-worker --service unix:/tmp/pike-0/pike.sock --python "
      ".venv/bin/python\n\nExit status: 0 stopped as asked, 1 failure, 2 wrong usage.");
  Declare(&app, &parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.is_exit = true;
    parsed.exit_code = app.exit(error) == 0 ? 0 : kUsageError;
    return parsed;
  }
  const std::vector<std::string> problems = CheckOptions(parsed.options);
  for (const std::string& problem : problems)
    std::cerr << "pike-gpu-worker: " << problem << "\n";
  parsed.is_exit = !problems.empty();
  parsed.exit_code = problems.empty() ? 0 : kUsageError;
  return parsed;
}

}  // namespace pike::gpu
