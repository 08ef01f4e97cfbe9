#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu_worker/runner/cuda_driver.h"

namespace pike::gpu {

// A buffer of the judge, mapped here. Not thread-safe.
class ExchangeMapping {
 public:
  ExchangeMapping() = default;
  ExchangeMapping(const ExchangeMapping&) = delete;
  ExchangeMapping& operator=(const ExchangeMapping&) = delete;
  ~ExchangeMapping() { Unmap(); }

  // Maps all of the memfd `fd`, which stays the caller's.
  bool MapHost(int fd, int protection);

  // The same and registers it for fast copies by the GPU; without that they are slower only.
  // `driver` must outlive the mapping; needs a current context.
  bool MapHostForGpu(int fd, const CudaDriver& driver);

  // Maps `bytes` of memory of the GPU; as above.
  CuResult MapDevice(int fd, std::size_t bytes, const CudaDriver& driver);

  bool is_mapped() const { return size_ > 0; }
  std::size_t size() const { return size_; }
  uint8_t* bytes() const { return bytes_; }               // null for memory of the GPU
  CuAddress address() const { return mapping_.address; }  // 0 for a memfd

  // Queues a copy from the buffer to memory of the GPU.
  CuResult CopyTo(CuAddress to, std::size_t offset, std::size_t bytes) const;

  void Unmap();

 private:
  const CudaDriver* driver_ = nullptr;
  DeviceMapping mapping_;
  uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;
  bool is_registered_ = false;
};

}  // namespace pike::gpu
