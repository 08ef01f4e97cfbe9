#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "common/base/unique_fd.h"

namespace pike::coordinator {

// A coordinator's state folder: `pike.db`, `blobs/` and a lock file. Holding it keeps every other
// coordinator off; the kernel frees the lock when the process dies.
class StoreFolder {
 public:
  // Creates the folder (0700) if it is missing. FailedPrecondition: another coordinator has it.
  static absl::StatusOr<StoreFolder> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string database_path() const { return path_ + "/pike.db"; }
  std::string blob_path() const { return path_ + "/blobs"; }

 private:
  StoreFolder(std::string path, UniqueFd lock);

  std::string path_;
  UniqueFd lock_;
};

}  // namespace pike::coordinator
