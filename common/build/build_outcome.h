#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "common/base/unique_fd.h"

namespace pike::build {

// One stream of a tool with the middle cut out. Untrusted bytes, not escaped.
struct CappedOutput {
  std::string head;
  std::string tail;  // empty unless something was cut out
  uint64_t bytes_total = 0;
};

// How a build failed. Decided from the tool's exit status and the sandbox's own counters.
enum class BuildFailureKind : uint8_t {
  kCompileError,  // a tool ended with a status other than 0
  kTimeout,       // the build's own deadline passed
  kOutOfMemory,   // the build's memory limit ended it
  kRefused,       // the request broke a bound, or the artifact was too large
};

// A failure that belongs to the candidate.
struct BuildFailure {
  BuildFailureKind kind = BuildFailureKind::kCompileError;
  std::string first_error;  // first error line of the failing tool, one line
  std::string file;         // as the candidate named it, for example "cuda.cu"; empty: not known
  uint32_t line = 0;        // 1-based; 0: not known
  std::string tool;         // "nvcc", "g++", "link" or "broker"
  int exit_status = 0;      // negative: the signal that ended the tool
  CappedOutput stdout_text;
  CappedOutput stderr_text;
};

// A finished build's bytes. Immutable and shared; safe from any thread.
class Artifact {
 public:
  Artifact(std::string sha256, std::string bytes);

  const std::string& sha256() const { return sha256_; }
  const std::string& bytes() const { return bytes_; }

  // A new sealed memory file with the bytes, to be sent into a sandbox: the receiver can neither
  // change nor shorten it, and holds nothing of ours. Close it after sending.
  absl::StatusOr<UniqueFd> OpenSealed() const;

 private:
  const std::string sha256_;
  const std::string bytes_;
};

// What became of one request: an artifact or a failure.
struct BuildOutcome {
  std::string key;
  std::shared_ptr<const Artifact> artifact;     // null if the build failed
  std::shared_ptr<const BuildFailure> failure;  // null if there is an artifact
  double build_ms = 0;                          // spent building here; 0 for a reused artifact
  bool is_reused = false;  // a finished build was reused, or an identical one in flight joined
};

}  // namespace pike::build
