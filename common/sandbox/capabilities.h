#pragma once

#include <string>
#include <vector>

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
  // Sorted; of each pair one: "pidns", "netns", "uid" (a real uid per sandbox) or "userns",
  // "cgroup-memory" or "rss-watchdog", "cgroup-pids" or "rlimit-nproc",
  // "cgroup-freezer" or "sigstop".
  std::vector<std::string> names = {};
  std::vector<Problem> problems = {};

  bool Has(const std::string& name) const;
  bool is_usable() const;  // no fatal problem
};

// Looks at this machine and tries a sandbox. Takes some 20 ms; never fails.
Capabilities DetectCapabilities(const HostOptions& options);

}  // namespace pike::sandbox
