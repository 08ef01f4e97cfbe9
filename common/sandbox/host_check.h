#pragma once

#include <map>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

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

// Namespaces by the names of /proc/self/ns, as the kernel prints them.
using Namespaces = std::map<std::string, std::string>;
Namespaces OwnNamespaces();

// Starts a sandbox; what it can tell of itself: /proc/self/status, then "ns NAME LINK" lines.
absl::StatusOr<std::string> LookInside(SandboxHost* host);

// The layers that this text shows, by the names of capabilities.h. Pure.
std::vector<std::string> LayersSeen(absl::string_view seen, const Namespaces& own);

// The layers that `capabilities.names` lacks.
std::vector<std::string> MissingLayers(const Capabilities& capabilities);

// What keeps sandboxes from starting, if LookInside failed with `status`.
Problem WhyNoSandbox(const absl::Status& status);

// What works, but could be better: one for each missing layer.
std::vector<Problem> Shortcomings(const std::vector<std::string>& missing);

}  // namespace pike::sandbox
