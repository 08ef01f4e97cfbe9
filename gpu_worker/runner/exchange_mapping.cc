#include "gpu_worker/runner/exchange_mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>

namespace pike::gpu {

bool ExchangeMapping::MapHost(int fd, int protection) {
  Unmap();
  struct stat facts = {};
  if (fstat(fd, &facts) != 0 || facts.st_size <= 0)
    return false;
  void* const mapping = mmap(nullptr, static_cast<std::size_t>(facts.st_size), protection,
                             MAP_SHARED, fd, /*offset=*/0);
  if (mapping == MAP_FAILED)
    return false;
  bytes_ = static_cast<uint8_t*>(mapping);
  size_ = static_cast<std::size_t>(facts.st_size);
  return true;
}

bool ExchangeMapping::MapHostForGpu(int fd, const CudaDriver& driver) {
  if (!MapHost(fd, PROT_READ | PROT_WRITE))
    return false;
  driver_ = &driver;
  is_registered_ =
      driver.host_register(bytes_, size_, kCuHostPortable | kCuHostMapped) == kCuSuccess;
  return true;
}

CuResult ExchangeMapping::MapDevice(int fd, std::size_t bytes, const CudaDriver& driver) {
  Unmap();
  const CuResult result = ImportMemory(driver, fd, bytes, mapping_);
  if (result != kCuSuccess)
    return result;
  driver_ = &driver;
  size_ = bytes;
  return kCuSuccess;
}

CuResult ExchangeMapping::CopyTo(CuAddress to, std::size_t offset, std::size_t bytes) const {
  if (bytes == 0)
    return kCuSuccess;
  if (mapping_.address != 0)
    return driver_->copy_device(to, mapping_.address + offset, bytes, /*stream=*/nullptr);
  return driver_->copy_in(to, bytes_ + offset, bytes, /*stream=*/nullptr);
}

void ExchangeMapping::Unmap() {
  if (mapping_.address != 0)
    UnmapMemory(*driver_, mapping_);
  if (is_registered_)
    (void)driver_->host_unregister(bytes_);
  if (bytes_ != nullptr)
    munmap(bytes_, size_);
  is_registered_ = false;
  bytes_ = nullptr;
  size_ = 0;
}

}  // namespace pike::gpu
