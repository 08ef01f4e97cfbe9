#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "coordinator/core/limits.h"
#include "coordinator/store/blob_folder.h"

namespace pike::coordinator {

// A round of canaries, in order: reads task.py and the candidates in `folder` and stores them as
// blobs, where workers fetch them. They are no registered task, nor anybody's evaluations.
absl::StatusOr<std::vector<CanarySpec>> LoadCanaries(const std::string& folder,
                                                     const BlobFolder& blobs);

}  // namespace pike::coordinator
