#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>

#include "common/build/toolchain.h"
#include "common/sandbox/spec.h"
#include "compile_worker/core/outcome.h"

namespace pike::sandbox {
class SandboxHost;
}  // namespace pike::sandbox

namespace pike::compile_worker {

// Parses candidates in a small sandbox of their own, before any of their code runs.
// Thread-safe. `host` must outlive it.
class SourceCheck {
 public:
  SourceCheck(sandbox::SandboxHost* host, const build::ToolchainPaths& paths,
              const std::string& share_dir);

  // kNotPython or kNoEntry with the reason, or nothing if the source may be a candidate. A parser
  // that crashes or runs out of memory on it means kNotPython: no import could get further.
  // Errors: no sandbox, Cancelled by `stop`, DeadlineExceeded.
  absl::StatusOr<std::optional<ImportFacts>> Check(const std::string& source,
                                                   const std::stop_token& stop) const;

 private:
  sandbox::SandboxHost* const host_;
  sandbox::SandboxSpec spec_;
};

}  // namespace pike::compile_worker
