#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "coordinator/core/limits.h"
#include "coordinator/store/blob_folder.h"

namespace pike::coordinator {

// Where the canaries are: $PIKE_SHARE_DIR/canaries, else ../share/pike/canaries beside the running
// program's folder, else in the source tree.
std::string CanaryFolder();

// A round of canaries, in order: reads task.py and the candidates in `folder` and stores them as
// blobs, where workers fetch them. They are no registered task, nor anybody's evaluations.
absl::StatusOr<std::vector<CanarySpec>> LoadCanaries(const std::string& folder,
                                                     const BlobFolder& blobs);

}  // namespace pike::coordinator
