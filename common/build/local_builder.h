#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "common/build/build_plan.h"
#include "common/build/builder.h"
#include "common/build/toolchain.h"

namespace pike::sandbox {
class SandboxHost;
struct InsideFile;
struct SandboxSpec;
}  // namespace pike::sandbox

namespace pike::build {

struct LocalBuilderOptions {
  ProbedToolchain toolchain;
  int64_t memory_bytes_max = int64_t{6} << 30;    // of one build; above it the build is ended
  size_t artifact_bytes_max = size_t{256} << 20;  // larger artifacts and objects are refused
  size_t object_bytes_max = size_t{512} << 20;    // of all objects, which lie in our memory
  size_t output_bytes_max = size_t{64} << 10;     // kept of a stream's start and of its end
  int nice = 5;
};

// Builds with this machine's own g++ and nvcc. Each run of a tool has a sandbox of its own that
// holds the toolchain, the request's bytes and the objects made before, and nothing else: no
// network, no GPU, no environment of ours.
// Threads: Build from any thread. `host` must outlive it.
class LocalBuilder : public Builder {
 public:
  LocalBuilder(LocalBuilderOptions options, sandbox::SandboxHost* host);

  absl::StatusOr<BuildProduct> Build(const BuildJob& job, std::stop_token stop) override;

 private:
  struct StepResult;

  sandbox::SandboxSpec SpecOf(const BuildJob& job) const;
  absl::StatusOr<StepResult> Run(const BuildJob& job, const BuildStep& step,
                                 std::vector<sandbox::InsideFile> files, const std::string& output,
                                 const std::stop_token& stop);

  const LocalBuilderOptions options_;
  sandbox::SandboxHost* const host_;
};

// What a sandbox must be able to read for `toolchain`'s tools or Python to run in it, beyond /usr:
// folders outside /usr, each once, none inside another.
std::vector<std::string> ToolchainFolders(const ToolchainPaths& paths, bool with_cuda);

}  // namespace pike::build
