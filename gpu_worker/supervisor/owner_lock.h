#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "common/base/unique_fd.h"

namespace pike::gpu {

// Takes a GPU for the life of this worker: a flock on <runtime_dir>/locks/<device>.owner, freed by
// the kernel when we die. That one worker owns a GPU is what lets quiet timing be this process's
// own business. FailedPrecondition: another worker has it; the message says which process.
absl::StatusOr<UniqueFd> TakeOwnership(const std::string& runtime_dir,
                                       const std::string& device_id);

}  // namespace pike::gpu
