#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>

#include "common/build/build_outcome.h"
#include "common/build/build_request.h"

namespace pike::build {

// What one build gave: `artifact`, or a failure of the candidate's.
struct BuildProduct {
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const BuildFailure> failure;
  bool is_published = false;  // the artifact is in the store already (it was built elsewhere)
};

struct BuildJob {
  BuildRequest request;
  std::string key;   // of request, this worker's toolchain and `arch`
  std::string arch;  // "cpu", or for example "9.0"
  std::chrono::steady_clock::time_point deadline;
};

// Does one build. The broker calls it from several threads at once, one per slot, and only for
// requests that were checked. Blocking; returns soon after `stop` is requested.
// Errors: anything that is not the candidate's fault (no sandbox, no session, stopped).
class Builder {
 public:
  virtual ~Builder() = default;
  virtual absl::StatusOr<BuildProduct> Build(const BuildJob& job, std::stop_token stop) = 0;
};

}  // namespace pike::build
