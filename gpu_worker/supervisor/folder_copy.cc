#include "gpu_worker/supervisor/folder_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/errno_status.h"
#include "common/base/status_macros.h"

namespace pike::gpu {
namespace {

constexpr int64_t kEntryBytes = 4096;

class Copier {
 public:
  explicit Copier(const FolderCopyOptions& options)
      : options_(options), bytes_left_(options.bytes_max), entries_left_(options.entries_max) {}

  absl::Status Copy(const UniqueFd& from, const UniqueFd& to, int depth) {
    if (depth > options_.depth_max)
      return absl::ResourceExhaustedError("too deep");
    for (const std::string& name : NamesIn(from)) {
      if (options_.skip && options_.skip(name))
        continue;
      if (entries_left_-- == 0)
        return absl::ResourceExhaustedError("too many files");
      struct stat facts {};
      if (::fstatat(from.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      if (S_ISDIR(facts.st_mode)) {
        const absl::StatusOr<UniqueFd> inner = OpenFolderAt(from.get(), name);
        if (!inner.ok())
          continue;
        ASSIGN_OR_RETURN(const UniqueFd made, MakeFolderAt(to.get(), name, options_.owner));
        RETURN_IF_ERROR(Copy(*inner, made, depth + 1));
      } else if (S_ISREG(facts.st_mode)) {
        RETURN_IF_ERROR(CopyFile(from, to, name));
      }
    }
    return absl::OkStatus();
  }

  int64_t bytes() const {
    return options_.bytes_max - bytes_left_ +
           kEntryBytes * static_cast<int64_t>(options_.entries_max - entries_left_);
  }

 private:
  static std::vector<std::string> NamesIn(const UniqueFd& folder) {
    std::vector<std::string> names;
    const int copy = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
      return names;
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(copy), ::closedir);
    while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe)
      const std::string name = entry->d_name;
      if (name != "." && name != "..")
        names.push_back(name);
    }
    return names;
  }

  absl::Status CopyFile(const UniqueFd& from, const UniqueFd& to, const std::string& name) {
    const UniqueFd source(
        ::openat(from.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat facts {};
    if (!source.is_open() || ::fstat(source.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
      return absl::OkStatus();  // it was exchanged: not ours to care
    const mode_t mode = 0600 | (facts.st_mode & 0111);
    const UniqueFd target(::openat(to.get(), name.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!target.is_open())
      return ErrnoStatus(errno, name);
    std::vector<char> buffer(size_t{1} << 20);
    for (;;) {
      const ssize_t count = ::read(source.get(), buffer.data(), buffer.size());
      if (count < 0)
        return ErrnoStatus(errno, name);
      if (count == 0)
        break;
      bytes_left_ -= count;
      if (bytes_left_ < 0)
        return absl::ResourceExhaustedError("too many bytes");
      if (::write(target.get(), buffer.data(), static_cast<size_t>(count)) != count)
        return ErrnoStatus(errno, name);
    }
    if (::geteuid() == 0 && ::fchown(target.get(), options_.owner, options_.owner) != 0)
      return ErrnoStatus(errno, name);
    return absl::OkStatus();
  }

  const FolderCopyOptions& options_;
  int64_t bytes_left_;
  size_t entries_left_;
};

}  // namespace

absl::StatusOr<int64_t> CopyFolder(const UniqueFd& from, const UniqueFd& to,
                                   const FolderCopyOptions& options) {
  Copier copier(options);
  RETURN_IF_ERROR(copier.Copy(from, to, 0));
  return copier.bytes();
}

absl::StatusOr<UniqueFd> OpenFolderAt(int parent, const std::string& name) {
  UniqueFd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.is_open())
    return ErrnoStatus(errno, name);
  return folder;
}

absl::StatusOr<UniqueFd> MakeFolderAt(int parent, const std::string& name, uid_t owner) {
  if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, name);
  ASSIGN_OR_RETURN(UniqueFd folder, OpenFolderAt(parent, name));
  if (::geteuid() == 0 && ::fchown(folder.get(), owner, owner) != 0)
    return ErrnoStatus(errno, name);
  return folder;
}

}  // namespace pike::gpu
