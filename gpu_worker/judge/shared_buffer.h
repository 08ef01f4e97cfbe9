#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/unique_fd.h"

namespace pike::gpu {

// A memfd of fixed size, mapped here and passed to a runner by its descriptor. Its size is sealed:
// a runner that could truncate it could kill this process.
// Not thread-safe. The runner may write at any time: read only copies of it.
class SharedBuffer {
 public:
  // Returns nothing and sets `error` if the system refuses. `bytes` is rounded up to whole pages.
  static std::optional<SharedBuffer> Create(std::size_t bytes, std::string& error);

  SharedBuffer() = default;
  SharedBuffer(SharedBuffer&& other) noexcept;
  SharedBuffer& operator=(SharedBuffer&& other) noexcept;
  ~SharedBuffer();

  uint8_t* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pike::gpu
