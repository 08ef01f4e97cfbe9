#include "common/build/build_outcome.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/errno_status.h"

namespace pike::build {

Artifact::Artifact(std::string sha256, std::string bytes)
    : sha256_(std::move(sha256)), bytes_(std::move(bytes)) {}

absl::StatusOr<UniqueFd> Artifact::OpenSealed() const {
  UniqueFd file(::memfd_create("artifact", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open())
    return ErrnoStatus(errno, "memfd_create");
  size_t written = 0;
  while (written < bytes_.size()) {
    const ssize_t count = ::write(file.get(), bytes_.data() + written, bytes_.size() - written);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return ErrnoStatus(errno, "write artifact to memory file");
    written += static_cast<size_t>(count);
  }
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0)
    return ErrnoStatus(errno, "seal artifact");
  if (::lseek(file.get(), 0, SEEK_SET) != 0)
    return ErrnoStatus(errno, "rewind artifact");
  return file;
}

}  // namespace pike::build
