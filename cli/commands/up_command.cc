#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "cli/commands/command.h"
#include "cli/console.h"
#include "cli/up/child_plan.h"
#include "cli/up/supervisor.h"
#include "common/base/errno_status.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/service/metrics.h"
#include "common/service/runtime_dir.h"

namespace pike::cli {
namespace {

constexpr char kUpFooter[] =
    R"(Examples:
  pike up
  pike up --gpus 0,1
  pike up --store /data/pike --compile-slots 2
  pike up --until-idle & pike eval --suite examples/tasks --candidates reference; wait

Runs pike-coordinator, pike-compile-worker and pike-gpu-worker from the folder of this program,
restarts dead ones, and stops them on Ctrl-C (a second one kills). Their logs come here.

Exit codes: 0 stopped or idle; 1 a process could not be kept running, or another `pike up` runs
here; 2 bad arguments or something is missing (try `pike doctor`).)";

// Held as long as this process lives. AlreadyExists: another one holds it.
absl::StatusOr<UniqueFd> LockRuntimeDir(const std::string& runtime_dir) {
  const std::string path = runtime_dir + "/up.lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.is_open())
    return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const std::string pid = ReadFile(path, 32).value_or("");
    return absl::AlreadyExistsError(
        absl::StrCat("another `pike up` (process ", absl::StripAsciiWhitespace(pid), ") runs in ",
                     runtime_dir, ": stop it first, or choose another folder with --runtime-dir"));
  }
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrnoStatus(errno, absl::StrCat("cannot write ", path));
  }
  return fd;
}

void RemoveFile(const std::string& path) {
  std::error_code ignored;  // what is not there need not be removed
  std::filesystem::remove_all(path, ignored);
}

ExitCode Run(const UpOptions& options, const GlobalOptions& globals) {
  // Before the search for programs and Python: who runs here already is the more helpful line.
  const auto runtime_dir = service::OpenRuntimeDir(globals.runtime_dir);
  if (!runtime_dir.ok()) {
    PrintError(runtime_dir.status().message());
    return ExitCode::kUsage;
  }
  const auto lock = LockRuntimeDir(*runtime_dir);
  if (!lock.ok()) {
    PrintError(lock.status().message());
    return ExitCode::kFailure;
  }
  // Before the GPUs are listed: the driver's library starts threads.
  SignalInbox signals;
  const auto settings = ResolveUpOptions(options, *runtime_dir);
  if (!settings.ok()) {
    for (const absl::string_view problem : absl::StrSplit(settings.status().message(), '\n'))
      PrintError(problem);
    return ExitCode::kUsage;
  }
  for (const std::string& warning : settings->warnings)
    PrintError(absl::StrCat("warning: ", warning));
  RemoveFile(*runtime_dir + "/metrics");
  const auto server =
      service::Metrics::Start({"pike-up", settings->metrics_addresses.back(), *runtime_dir});
  if (!server.ok()) {
    PrintError(server.status().message());
    return ExitCode::kFailure;
  }
  const absl::Status endpoint = service::WriteEndpoint(*runtime_dir, settings->target);
  if (!endpoint.ok()) {
    PrintError(endpoint.message());
    return ExitCode::kFailure;
  }
  std::optional<IdlePolicy::Limits> idle_limits;
  if (options.is_until_idle) {
    idle_limits.emplace();
    idle_limits->grace = std::chrono::seconds(options.idle_grace_s);
  }
  std::cout << "starting pike in " << *runtime_dir << std::endl;
  UpMetrics metrics(&(*server)->registry());
  const ExitCode code = UpSupervisor(*settings, idle_limits, &signals, &metrics).Run();
  RemoveFile(*runtime_dir + "/endpoint");
  return code;
}

}  // namespace

void AddUpCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  auto options = std::make_shared<UpOptions>();
  CLI::App* command = app->add_subcommand("up", "Run the whole service on this machine");
  command
      ->add_option(
          "--gpus", options->gpus,
          "GPUs to use: auto (all, or the CPU if there is none), all, 0,1 or GPU-UUIDs, none")
      ->capture_default_str();
  command
      ->add_option("--compile-slots", options->compile_slots,
                   "Candidates compiled at once (default: by cores and memory)")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--gpu-slots", options->gpu_slots,
                   "Candidates in a GPU worker at once (default: by cores)")
      ->check(CLI::Range(1, 64));
  command->add_option("--store", options->store,
                      "State folder (default: XDG_DATA_HOME/pike, ~/.local/share/pike)");
  command->add_option("--cache-dir", options->cache_dir,
                      "Folder of builds and native parts (default: in the state folder)");
  command->add_option(
      "--listen", options->listen,
      "unix:/absolute/path, or 127.0.0.1:port (loopback only, until certificates exist; "
      "default: a socket in the runtime folder)");
  command->add_option("--python", options->python,
                      "Python with PyTorch (default: PIKE_PYTHON, the active environment, "
                      "the checkout's or bundle's .venv, python3)");
  command
      ->add_option("--metrics-base-port", options->metrics_base_port,
                   "Metrics of the three processes and of pike up on this port and the next three; "
                   "0: any; off: none")
      ->capture_default_str();
  command->add_flag("--until-idle", options->is_until_idle,
                    "End once nothing is left to do: after an evaluation, or after --idle-grace "
                    "without one");
  command
      ->add_option("--idle-grace", options->idle_grace_s,
                   "With --until-idle: seconds to wait for a first evaluation, from ready on")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  command->add_flag("--require-sandbox", options->is_sandbox_required,
                    "Refuse to start where a layer of the sandbox is missing");
  command
      ->add_option("--canaries", options->canaries,
                   "on: the GPU worker is tried with programs of known verdict before its first "
                   "work and every few hours; off: never")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  command->footer(kUpFooter);
  command->callback([=] { *action = [=] { return Run(*options, *globals); }; });
}

}  // namespace pike::cli
