#include "common/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/unique_fd.h"

namespace pike {

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open())
    return ErrnoStatus(errno, absl::StrCat("open ", path));
  std::string bytes;
  char chunk[65536];
  while (true) {
    const ssize_t got = ::read(fd.get(), chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (got == 0)
      return bytes;
    bytes.append(chunk, static_cast<size_t>(got));
    if (bytes.size() > bytes_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " is larger than ", bytes_max, " bytes"));
    }
  }
}

absl::Status WriteFileAtomic(const std::string& path, absl::string_view bytes, unsigned mode) {
  static std::atomic<unsigned> counter{0};
  const std::string temporary = absl::StrCat(path, ".", ::getpid(), ".", counter.fetch_add(1));
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.is_open())
    return ErrnoStatus(errno, absl::StrCat("create ", temporary));
  const auto fail = [&](const char* what) {
    const absl::Status status = ErrnoStatus(errno, absl::StrCat(what, " ", temporary));
    ::unlink(temporary.c_str());
    return status;
  };
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return fail("write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(fd.get()) != 0)
    return fail("sync");
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return fail("rename");
  return absl::OkStatus();
}

absl::StatusOr<TempFolder> TempFolder::Create(absl::string_view prefix) {
  std::error_code error;
  const std::filesystem::path base = std::filesystem::temp_directory_path(error);
  if (error)
    return absl::InternalError(absl::StrCat("no folder for temporary files: ", error.message()));
  std::string pattern = absl::StrCat(base.string(), "/", prefix, ".XXXXXX");
  if (::mkdtemp(pattern.data()) == nullptr)
    return ErrnoStatus(errno, absl::StrCat("mkdtemp ", pattern));
  return TempFolder(std::move(pattern));
}

TempFolder::TempFolder(TempFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempFolder& TempFolder::operator=(TempFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TempFolder::~TempFolder() {
  if (path_.empty())
    return;
  std::error_code ignored;  // Nobody is left to tell, and the next user has another name.
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace pike
