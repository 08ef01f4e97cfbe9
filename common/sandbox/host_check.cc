#include "common/sandbox/host_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace pike::sandbox {
namespace {

constexpr std::chrono::seconds kTryTimeout(10);
constexpr char kBwrap[] = "bwrap";
// Inheritable, permitted, effective, ambient. The bounding set means nothing without new
// privileges.
constexpr int kCapabilitySets = 4;
constexpr char kLookScript[] =
    "cat /proc/self/status; for n in pid mnt net ipc uts user; do echo ns $n $(readlink "
    "/proc/self/ns/$n); done";
const std::map<std::string, std::string> kNamespaceLayers = {{"pid", "pidns"}, {"mnt", "mountns"},
                                                             {"net", "netns"}, {"ipc", "ipcns"},
                                                             {"uts", "utsns"}, {"user", "userns"}};

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

Namespaces OwnNamespaces() {
  Namespaces own;
  for (const auto& [name, layer] : kNamespaceLayers) {
    std::error_code error;
    own[name] = std::filesystem::read_symlink(absl::StrCat("/proc/self/ns/", name), error).string();
  }
  return own;
}

absl::StatusOr<std::string> LookInside(SandboxHost* host) {
  const SandboxSpec spec{.name = "check", .argv = {"/bin/sh", "-c", kLookScript}};
  ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, host->Start(spec));
  const Exit exit = sandbox->WaitOrKill(MonoNow() + kTryTimeout);
  if (exit.is_success())
    return sandbox->Stdout().Text();
  return absl::InternalError(
      absl::StrCat("a look inside a sandbox: ", exit.Text(), " ", sandbox->Stderr().Text()));
}

std::vector<std::string> LayersSeen(absl::string_view seen, const Namespaces& own) {
  std::vector<std::string> layers;
  bool has_user_namespace = false;
  bool is_other_uid = false;
  int empty_sets = 0;
  for (const absl::string_view line : absl::StrSplit(seen, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" :\t"), absl::SkipEmpty());
    if (words.size() < 2)
      continue;
    if (words[0] == "ns" && words.size() >= 3) {
      const auto outside = own.find(std::string(words[1]));
      const bool is_other = outside != own.end() && !outside->second.empty() &&
                            !absl::StrContains(line, outside->second);
      if (is_other && words[1] == "user")
        has_user_namespace = true;
      else if (is_other)
        layers.emplace_back(kNamespaceLayers.at(outside->first));
    } else if (words[0] == "NoNewPrivs" && words[1] == "1") {
      layers.emplace_back("no-new-privs");
    } else if (words[0] == "Seccomp" && words[1] == "2") {
      layers.emplace_back("seccomp");
    } else if (words[0] == "Uid") {
      is_other_uid = words[1] != "0";
    } else if (absl::StartsWith(words[0], "Cap") && words[0] != "CapBnd") {
      empty_sets += words[1].find_first_not_of('0') == absl::string_view::npos ? 1 : 0;
    }
  }
  if (has_user_namespace)
    layers.emplace_back("userns");
  else if (is_other_uid)
    layers.emplace_back("uid");
  if (empty_sets == kCapabilitySets)
    layers.emplace_back("no-capabilities");
  return layers;
}

std::vector<std::string> MissingLayers(const Capabilities& capabilities) {
  std::vector<std::string> missing;
  for (const char* layer : {"pidns", "mountns", "netns", "ipcns", "utsns", "seccomp",
                            "no-new-privs", "no-capabilities", "cgroup-memory", "cgroup-freezer"}) {
    if (!capabilities.Has(layer))
      missing.emplace_back(layer);
  }
  if (!capabilities.Has("uid") && !capabilities.Has("userns"))
    missing.emplace_back("uid");
  return missing;
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

std::vector<Problem> Shortcomings(const std::vector<std::string>& missing) {
  std::vector<Problem> problems;
  for (const std::string& layer : missing) {
    Problem problem{.what = absl::StrCat("the layer ", layer, " does not hold"),
                    .fix = "use bubblewrap >= 0.8 as it is packaged, on a kernel >= 5.10"};
    if (layer == "cgroup-memory") {
      problem.what =
          "no writable memory cgroup: the memory of candidates is watched instead, so a fast one "
          "can "
          "pass its limit for some milliseconds";
      problem.fix = "systemd-run --user --scope -p Delegate=yes pike up (or run as root)";
    } else if (layer == "cgroup-freezer") {
      problem.what =
          "no writable cgroup of version 2: processes are stopped by signals while the other side "
          "is "
          "timed";
      problem.fix =
          "mount cgroup2 writable (in a container: --cgroupns=private and a host with v2)";
    } else if (layer == "seccomp") {
      problem.what = "no system call filter: the whole kernel is within reach of candidates";
      problem.fix =
          "a kernel with CONFIG_SECCOMP_FILTER, and a container runtime that passes it on";
    }
    problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace pike::sandbox
