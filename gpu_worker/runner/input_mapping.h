#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace pike::gpu {

// The inputs of one call on device cpu: a memfd of the judge, mapped copy-on-write, so that a
// candidate may change them. Counted, since it may keep them, too. Pages are mapped as they are
// touched: whoever reads an input once pays for that, and a harness that did it ahead could be
// saved.
class InputMapping {
 public:
  // Maps `bytes` of `fd`, which stays the caller's. The one reference is the caller's. Null if the
  // system refuses.
  static InputMapping* Map(int fd, std::size_t bytes);

  // Thread-safe. Release unmaps with the last reference.
  void Retain() { references_.fetch_add(1); }
  void Release();

  uint8_t* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }

  // Whether they are what `fd` still holds.
  bool IsUnchanged(int fd) const;

 private:
  InputMapping(uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  ~InputMapping();

  std::atomic<int> references_{1};
  uint8_t* const bytes_;
  const std::size_t size_;
};

struct InputMappingRelease {
  void operator()(InputMapping* mapping) const { mapping->Release(); }
};
using InputMappingRef = std::unique_ptr<InputMapping, InputMappingRelease>;

}  // namespace pike::gpu
