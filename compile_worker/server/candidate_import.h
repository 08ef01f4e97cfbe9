#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/build/broker.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/warm_pool.h"
#include "compile_worker/core/outcome.h"

namespace pike::compile_worker {

// One extension a candidate asked for, under the name it gave.
struct NamedBuild {
  std::string name;
  build::BuildOutcome outcome;
};

// Everything observed of one import.
struct ImportObservation {
  ImportFacts facts;
  std::vector<NamedBuild> builds;  // each key once, in order of the first request
  sandbox::Exit exit;
  sandbox::CapturedOutput stdout_text;
  sandbox::CapturedOutput stderr_text;
};

struct ImportJob {
  std::string source;
  std::string arch;
  std::chrono::milliseconds timeout{};        // of the import and all its builds
  MonoTime latest;                            // of everything, the wait for a sandbox included
  std::chrono::milliseconds build_timeout{};  // of each build
  std::stop_token stop;                       // kills the sandbox
};

// Imports a candidate in a sandbox of `pool` and serves its build requests from `broker`.
// Blocking; the sandbox is gone on return. Errors are ours: no sandbox, Cancelled by `job.stop`.
absl::StatusOr<ImportObservation> ImportCandidate(sandbox::WarmPool* pool, build::Broker* broker,
                                                  const ImportJob& job);

}  // namespace pike::compile_worker
