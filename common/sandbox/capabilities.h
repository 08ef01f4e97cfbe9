#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>

namespace pike::sandbox {

struct HostOptions;

// Something that this machine lacks, for `pike doctor`.
struct Problem {
  std::string what;
  std::string fix;        // a command or a setting, on one line
  bool is_fatal = false;  // no sandbox can start until it is fixed
};

// What sandboxes are made of on this machine.
struct Capabilities {
  // The layers that hold, sorted. Seen from inside a sandbox: "pidns", "mountns", "netns", "ipcns",
  // "utsns", "seccomp", "no-new-privs", "no-capabilities", "uid" (a real uid per sandbox, where we
  // are root) or "userns". From the limits that could be made: "cgroup-memory" or "rss-watchdog",
  // "cgroup-pids" or "rlimit-nproc" (as good), "cgroup-freezer" or "sigstop".
  std::vector<std::string> names = {};
  // The layers that do not hold, by the names above; "uid" stands for a user namespace too.
  std::vector<std::string> missing = {};
  std::vector<Problem> problems = {};

  bool Has(const std::string& name) const;
  bool is_usable() const;  // no fatal problem
};

// FailedPrecondition that names the layers that are missing, if there are any: for workers that
// shall not run without one.
absl::Status RequireAllLayers(const Capabilities& capabilities);

// Looks at this machine and tries a sandbox. Takes some 20 ms; never fails.
Capabilities DetectCapabilities(const HostOptions& options);

}  // namespace pike::sandbox
