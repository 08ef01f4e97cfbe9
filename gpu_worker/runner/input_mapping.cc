#include "gpu_worker/runner/input_mapping.h"

#include <string.h>
#include <sys/mman.h>

namespace pike::gpu {

InputMapping* InputMapping::Map(int fd, std::size_t bytes) {
  void* const mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, /*offset=*/0);
  return mapping == MAP_FAILED ? nullptr : new InputMapping(static_cast<uint8_t*>(mapping), bytes);
}

InputMapping::~InputMapping() {
  munmap(bytes_, size_);
}

void InputMapping::Release() {
  if (references_.fetch_sub(1) == 1)
    delete this;
}

bool InputMapping::IsUnchanged(int fd) const {
  void* const original = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, /*offset=*/0);
  if (original == MAP_FAILED)
    return false;
  const bool is_same = memcmp(bytes_, original, size_) == 0;
  munmap(original, size_);
  return is_same;
}

}  // namespace pike::gpu
