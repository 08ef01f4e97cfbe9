#include "coordinator/store/store_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"

namespace pike::coordinator {

absl::StatusOr<StoreFolder> StoreFolder::Open(const std::string& path) {
  if (path.empty())
    return absl::InvalidArgumentError("the store folder has no name; give --store DIR");
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (!exists && std::filesystem::create_directories(path, error) &&
      ::chmod(path.c_str(), 0700) != 0)
    return ErrnoStatus(errno, absl::StrCat("store ", path, ": set mode 0700"));
  if (error)
    return ErrnoStatus(error.value(), absl::StrCat("store ", path, ": create the folder"));
  const std::string lock_path = path + "/lock";
  UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open())
    return ErrnoStatus(errno, absl::StrCat("store ", path, ": open its lock file"));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return absl::FailedPreconditionError(absl::StrCat(
          "store ", path, ": another coordinator uses it; stop that one or give another --store"));
    return ErrnoStatus(errno, absl::StrCat("store ", path, ": lock it"));
  }
  return StoreFolder(path, std::move(lock));
}

StoreFolder::StoreFolder(std::string path, UniqueFd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

}  // namespace pike::coordinator
