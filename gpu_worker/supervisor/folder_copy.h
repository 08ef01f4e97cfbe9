#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/unique_fd.h"

namespace pike::gpu {

struct FolderCopyOptions {
  int64_t bytes_max = int64_t{512} << 20;
  size_t entries_max = 50'000;
  int depth_max = 16;
  // New files and folders are given to this uid and gid, if we are root.
  uid_t owner = 0;
  // Names (without folders) that are left out. May be empty.
  std::function<bool(absl::string_view name)> skip;
};

// Copies the regular files and folders below the folder `from` into the folder `to`; everything
// else, links above all, is left out, and none is followed, so `from` may hold whatever a candidate
// left there. Returns the bytes of the copy, a page more for each name. REQUIRES: nobody
// changes `to` meanwhile. ResourceExhausted: a bound was reached; what was copied until then stays.
absl::StatusOr<int64_t> CopyFolder(const UniqueFd& from, const UniqueFd& to,
                                   const FolderCopyOptions& options);

// A folder below `parent` that is no link; NotFound if there is none.
absl::StatusOr<UniqueFd> OpenFolderAt(int parent, const std::string& name);
// The same, made if it is not there.
absl::StatusOr<UniqueFd> MakeFolderAt(int parent, const std::string& name, uid_t owner);

}  // namespace pike::gpu
