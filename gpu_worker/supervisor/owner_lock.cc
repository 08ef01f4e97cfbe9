#include "gpu_worker/supervisor/owner_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/service/runtime_dir.h"
#include "gpu_worker/supervisor/device_lock.h"

namespace pike::gpu {

absl::StatusOr<UniqueFd> TakeOwnership(const std::string& runtime_dir,
                                       const std::string& device_id) {
  const std::string folder = runtime_dir + "/locks";
  RETURN_IF_ERROR(service::MakeFolders(folder, 0700));
  const std::string path = absl::StrCat(folder, "/", LockFileName(device_id), ".owner");
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open())
    return ErrnoStatus(errno, path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    const std::string pid = ReadFile(path, 32).value_or("");
    return absl::FailedPreconditionError(
        absl::StrCat("another GPU worker (process ", absl::StripAsciiWhitespace(pid), ") has ",
                     device_id, ": stop it, or choose other GPUs with --devices"));
  }
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return ErrnoStatus(errno, path);
  return file;
}

}  // namespace pike::gpu
