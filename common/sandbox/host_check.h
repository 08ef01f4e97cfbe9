#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>

#include "common/sandbox/capabilities.h"
#include "common/sandbox/sandbox_host.h"

namespace pike::sandbox {

// The parts of the look at a machine (capabilities.h).

// Absolute path of a program, "" if it is not there. Names are looked up in /usr/bin and /bin.
std::string FindProgram(const std::string& name);

// Bubblewrap to run: the one that came with a relocatable pike (../libexec/pike/bwrap beside this
// program's folder) if nobody else can write it, else FindProgram(name). A path is taken as it is.
std::string FindBwrap(const std::string& name);

std::vector<Problem> MissingPrograms(const HostOptions& options);

// FailedPrecondition with the first fatal problem and its fix, if there is one.
absl::Status FirstFatal(const Capabilities& capabilities);

// Runs /bin/true in a sandbox.
absl::Status TryOne(SandboxHost* host);

// What keeps sandboxes from starting, if TryOne failed with `status`.
Problem WhyNoSandbox(const absl::Status& status);

// What works, but could be better.
std::vector<Problem> Shortcomings(bool has_memory_cgroup);

std::vector<std::string> CapabilityNames(bool is_root, bool has_memory_cgroup, bool has_pids_cgroup,
                                         bool has_freezer_cgroup);

}  // namespace pike::sandbox
