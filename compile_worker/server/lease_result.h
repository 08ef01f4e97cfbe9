#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>

#include "common/build/build_outcome.h"
#include "compile_worker/server/candidate_import.h"
#include "pike/v1/worker.pb.h"

namespace pike::compile_worker {

// What goes into the evidence of every verdict of this worker.
struct WorkerIdentity {
  std::string worker_id;
  std::string toolchain_digest;
  std::vector<std::string> sandbox_capabilities;
};

// The message that answers `lease`. Text of candidates is escaped and capped here.

v1::LeaseResult ImportResult(const v1::Lease& lease, const ImportObservation& observation,
                             double compile_ms, const WorkerIdentity& identity);
v1::LeaseResult BuildWorkResult(const v1::Lease& lease, const std::string& extension_name,
                                const build::BuildOutcome& outcome);
// Nothing was decided; another attempt may.
v1::LeaseResult InfraResult(const v1::Lease& lease, const absl::Status& status);

}  // namespace pike::compile_worker
