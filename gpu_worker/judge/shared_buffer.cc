#include "gpu_worker/judge/shared_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace pike::gpu {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::string ErrnoText(const char* what) {
  return std::string(what) + ": errno " + std::to_string(errno);
}

}  // namespace

std::optional<SharedBuffer> SharedBuffer::Create(std::size_t bytes, std::string& error) {
  SharedBuffer buffer;
  buffer.size_ = (bytes / kPageBytes + 1) * kPageBytes;
  buffer.fd_.Reset(memfd_create("pike", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!buffer.fd_.is_open()) {
    error = ErrnoText("memfd_create");
    return std::nullopt;
  }
  if (ftruncate(buffer.fd(), static_cast<off_t>(buffer.size_)) != 0) {
    error = ErrnoText("ftruncate");
    return std::nullopt;
  }
  void* mapping =
      mmap(nullptr, buffer.size_, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.fd(), /*offset=*/0);
  if (mapping == MAP_FAILED) {
    error = ErrnoText("mmap");
    return std::nullopt;
  }
  buffer.bytes_ = static_cast<uint8_t*>(mapping);
  if (fcntl(buffer.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    error = ErrnoText("F_ADD_SEALS");
    return std::nullopt;
  }
  return buffer;
}

SharedBuffer::SharedBuffer(SharedBuffer&& other) noexcept {
  *this = std::move(other);
}

SharedBuffer& SharedBuffer::operator=(SharedBuffer&& other) noexcept {
  if (this != &other) {
    if (bytes_ != nullptr)
      munmap(bytes_, size_);
    fd_ = std::move(other.fd_);
    bytes_ = std::exchange(other.bytes_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

SharedBuffer::~SharedBuffer() {
  if (bytes_ != nullptr)
    munmap(bytes_, size_);
}

}  // namespace pike::gpu
