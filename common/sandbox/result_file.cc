#include "common/sandbox/result_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"

namespace pike::sandbox {

absl::StatusOr<ResultFile> ResultFile::Create() {
  UniqueFd fd(memfd_create("pike-result", MFD_CLOEXEC));
  if (!fd.is_open())
    return ErrnoStatus(errno, "memfd_create");
  return ResultFile(std::move(fd));
}

absl::StatusOr<std::string> ResultFile::Read(size_t bytes_max) const {
  struct stat facts {};
  if (fstat(fd_.get(), &facts) != 0)
    return ErrnoStatus(errno, "fstat of a result file");
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (size > bytes_max)
    return absl::ResourceExhaustedError(
        absl::StrCat("result of ", size, " bytes, at most ", bytes_max));
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        pread(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return ErrnoStatus(errno, "read a result file");
    if (count == 0)
      break;
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace pike::sandbox
