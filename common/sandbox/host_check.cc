#include "common/sandbox/host_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace pike::sandbox {
namespace {

constexpr std::chrono::seconds kTryTimeout(10);
constexpr char kBwrap[] = "bwrap";

// Value of a kernel setting; nothing if this kernel does not have it.
std::optional<int64_t> Setting(const std::string& name) {
  const absl::StatusOr<std::string> text = ReadFile("/proc/sys/" + name, 64);
  int64_t value = 0;
  if (!text.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &value))
    return std::nullopt;
  return value;
}

// The bubblewrap beside this program, "" if there is none. As root we run it as root, so it must be
// no easier to replace than this program.
std::string BundledBwrap() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = program.parent_path().parent_path() / "libexec/pike" / kBwrap;
  struct stat ours {};
  struct stat facts {};
  if (error || stat(program.c_str(), &ours) != 0 || stat(path.c_str(), &facts) != 0)
    return "";
  const bool is_as_safe = facts.st_uid == 0 || facts.st_uid == ours.st_uid;
  const bool is_program = S_ISREG(facts.st_mode) && access(path.c_str(), X_OK) == 0;
  return is_program && is_as_safe && (facts.st_mode & 022) == 0 ? path : "";
}

}  // namespace

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return access(name.c_str(), X_OK) == 0 ? name : "";
  for (const char* folder : {"/usr/bin/", "/bin/"}) {
    if (access((folder + name).c_str(), X_OK) == 0)
      return folder + name;
  }
  return "";
}

std::string FindBwrap(const std::string& name) {
  const std::string bundled = BundledBwrap();
  if (name == kBwrap && !bundled.empty())
    return bundled;
  return FindProgram(name);
}

std::vector<Problem> MissingPrograms(const HostOptions& options) {
  std::vector<Problem> problems;
  if (FindBwrap(options.bwrap).empty())
    problems.push_back({.what = absl::StrCat("bubblewrap (", options.bwrap, ") is missing"),
                        .fix = "sudo apt-get install bubblewrap",
                        .is_fatal = true});
  const std::string demotion = geteuid() == 0 ? options.setpriv : "prlimit";
  if (FindProgram(demotion).empty())
    problems.push_back({.what = absl::StrCat(demotion, " is missing"),
                        .fix = "sudo apt-get install util-linux",
                        .is_fatal = true});
  return problems;
}

absl::Status FirstFatal(const Capabilities& capabilities) {
  for (const Problem& problem : capabilities.problems) {
    if (problem.is_fatal)
      return absl::FailedPreconditionError(absl::StrCat(problem.what, "; fix: ", problem.fix));
  }
  return absl::OkStatus();
}

absl::Status TryOne(SandboxHost* host) {
  const SandboxSpec spec{.name = "check", .argv = {"/bin/true"}};
  ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, host->Start(spec));
  const Exit exit = sandbox->WaitOrKill(MonoNow() + kTryTimeout);
  if (exit.is_success())
    return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("/bin/true in a sandbox: ", exit.Text(), " ", sandbox->Stderr().Text()));
}

Problem WhyNoSandbox(const absl::Status& status) {
  Problem problem{.what = std::string(status.message()),
                  .fix = absl::StrCat("see the message; `", FindBwrap(kBwrap),
                                      " --unshare-all --ro-bind / / true` must work"),
                  .is_fatal = true};
  if (geteuid() == 0) {
    problem.fix =
        "root needs CAP_SYS_ADMIN (docker run --privileged, or --cap-add SYS_ADMIN with "
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined)";
    return problem;
  }
  if (Setting("kernel/apparmor_restrict_unprivileged_userns").value_or(0) != 0) {
    problem.what = absl::StrCat("AppArmor refuses user namespaces to users: ", problem.what);
    problem.fix = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  } else if (Setting("kernel/unprivileged_userns_clone").value_or(1) == 0) {
    problem.what = absl::StrCat("user namespaces are off for users: ", problem.what);
    problem.fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1";
  } else if (Setting("user/max_user_namespaces").value_or(1) == 0) {
    problem.what = absl::StrCat("user namespaces are off: ", problem.what);
    problem.fix = "sudo sysctl -w user.max_user_namespaces=10000";
  }
  return problem;
}

std::vector<Problem> Shortcomings(bool has_memory_cgroup) {
  if (has_memory_cgroup)
    return {};
  return {{.what = "no writable memory cgroup: the memory of candidates is watched instead, so a "
                   "fast one can pass its limit for some milliseconds",
           .fix = "systemd-run --user --scope -p Delegate=yes pike up (or run as root)",
           .is_fatal = false}};
}

std::vector<std::string> CapabilityNames(bool is_root, bool has_memory_cgroup, bool has_pids_cgroup,
                                         bool has_freezer_cgroup) {
  std::vector<std::string> names = {"pidns",
                                    "netns",
                                    is_root ? "uid" : "userns",
                                    has_memory_cgroup ? "cgroup-memory" : "rss-watchdog",
                                    has_pids_cgroup ? "cgroup-pids" : "rlimit-nproc",
                                    has_freezer_cgroup ? "cgroup-freezer" : "sigstop"};
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace pike::sandbox
