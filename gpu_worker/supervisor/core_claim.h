#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "common/base/unique_fd.h"
#include "common/device/core_plan.h"

namespace pike::gpu {

// The cores of one GPU worker, so that no other worker of this runtime folder runs on the ones it
// reserves: a flock on <runtime_dir>/locks/core-<n> for each, exclusive for reserved cores, shared
// for the others. The kernel frees them when we die.
class CoreClaim {
 public:
  // FailedPrecondition: the plan is in the way of another worker's, or the other way round.
  static absl::StatusOr<CoreClaim> Take(const std::string& runtime_dir,
                                        const device::CorePlan& plan);

 private:
  std::vector<UniqueFd> files_;
};

}  // namespace pike::gpu
