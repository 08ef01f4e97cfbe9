#include "gpu_worker/supervisor/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/service/runtime_dir.h"

namespace pike::gpu {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kLockSuffix = ".lock";

absl::StatusOr<UniqueFd> TryLock(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open())
    return ErrnoStatus(errno, path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return ErrnoStatus(errno, path);
  return file;
}

void RemoveLeftovers(const std::string& parent) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string path = entry.path().string();
    if (!absl::EndsWith(path, kLockSuffix))
      continue;
    const absl::StatusOr<UniqueFd> lock = TryLock(path);
    if (!lock.ok())
      continue;  // its process lives
    fs::remove_all(path.substr(0, path.size() - kLockSuffix.size()), ignored);
    fs::remove(path, ignored);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkFolder>> WorkFolder::Create(const std::string& runtime_dir,
                                                               absl::string_view name) {
  const std::string parent = runtime_dir + "/gpu-worker";
  RETURN_IF_ERROR(service::MakeFolders(parent, 0700));
  RemoveLeftovers(parent);
  const std::string path = absl::StrCat(parent, "/", ::getpid(), "-", name);
  ASSIGN_OR_RETURN(UniqueFd lock, TryLock(absl::StrCat(path, kLockSuffix)));
  RETURN_IF_ERROR(service::MakeFolders(path, 0700));
  return std::unique_ptr<WorkFolder>(new WorkFolder(path, std::move(lock)));
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  fs::remove(absl::StrCat(path_, kLockSuffix), ignored);
}

std::string WorkFolder::PathOf(absl::string_view sandbox_name) const {
  return absl::StrCat(path_, "/", sandbox_name);
}

absl::Status WorkFolder::Make(absl::string_view sandbox_name) const {
  const std::string path = PathOf(sandbox_name);
  if (::mkdir(path.c_str(), 0755) != 0)
    return ErrnoStatus(errno, path);
  // Whatever the umask: another uid reads it.
  if (::chmod(path.c_str(), 0755) != 0)
    return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

absl::Status WorkFolder::Put(absl::string_view sandbox_name, absl::string_view file,
                             absl::string_view bytes) const {
  return WriteFileAtomic(absl::StrCat(PathOf(sandbox_name), "/", file), bytes, 0644);
}

void WorkFolder::Remove(absl::string_view sandbox_name) const {
  std::error_code ignored;
  fs::remove_all(PathOf(sandbox_name), ignored);
}

}  // namespace pike::gpu
