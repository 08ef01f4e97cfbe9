#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "gpu_worker/runner/cuda_driver.h"

namespace pike::gpu {

// A driver whose device memory is memory of this process. Faults are set in the one state that all
// its functions share; NewFakeDriver clears them.
struct FakeCuda {
  CuResult synchronize_result = kCuSuccess;
  CuResult allocate_result = kCuSuccess;
  CuResult create_result = kCuSuccess;
  int copies = 0;       // queued copies
  int live_blocks = 0;  // allocations that are not freed
};

inline FakeCuda& TheFakeCuda() {
  static FakeCuda state;
  return state;
}

inline CuResult FakeCopy2d(const CuCopy2d* copy, CuStream /*stream*/) {
  ++TheFakeCuda().copies;
  const auto* from = reinterpret_cast<const uint8_t*>(copy->source_device);
  auto* to = copy->target_type == kCuMemoryHost ? static_cast<uint8_t*>(copy->target_host)
                                                : reinterpret_cast<uint8_t*>(copy->target_device);
  if (copy->source_pitch < copy->width_bytes || copy->target_pitch < copy->width_bytes)
    return 1;  // as the real one
  for (std::size_t i = 0; i < copy->height; ++i)
    std::memcpy(to + i * copy->target_pitch, from + i * copy->source_pitch, copy->width_bytes);
  return kCuSuccess;
}

inline void SetFakeMemory(CudaDriver& driver) {
  driver.memory_info = [](std::size_t* free_bytes, std::size_t* total_bytes) {
    *free_bytes = std::size_t{1} << 30;
    *total_bytes = std::size_t{2} << 30;
    return kCuSuccess;
  };
  driver.allocate = [](CuAddress* address, std::size_t bytes) {
    if (TheFakeCuda().allocate_result != kCuSuccess)
      return TheFakeCuda().allocate_result;
    *address = reinterpret_cast<CuAddress>(std::malloc(bytes));
    ++TheFakeCuda().live_blocks;
    return kCuSuccess;
  };
  driver.free = [](CuAddress address) {
    std::free(reinterpret_cast<void*>(address));
    --TheFakeCuda().live_blocks;
    return kCuSuccess;
  };
  driver.fill = [](CuAddress, uint8_t, std::size_t, CuStream) { return kCuSuccess; };
  driver.copy_device = [](CuAddress to, CuAddress from, std::size_t bytes, CuStream) {
    ++TheFakeCuda().copies;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return kCuSuccess;
  };
  driver.copy_in = [](CuAddress to, const void* from, std::size_t bytes, CuStream) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return kCuSuccess;
  };
  driver.copy_out = [](void* to, CuAddress from, std::size_t bytes, CuStream) {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return kCuSuccess;
  };
  driver.copy_2d = FakeCopy2d;
  driver.host_register = [](void*, std::size_t, unsigned) { return kCuSuccess; };
  driver.host_unregister = [](void*) { return kCuSuccess; };
}

// Physical memory is a memfd, so that mapping and passing it on are real.
inline void SetFakeSharing(CudaDriver& driver) {
  driver.memory_granularity = [](std::size_t* bytes, const CuAllocation*, int) {
    *bytes = 1 << 16;
    return kCuSuccess;
  };
  driver.memory_create = [](CuMemory* memory, std::size_t bytes, const CuAllocation*,
                            unsigned long long) {
    if (TheFakeCuda().create_result != kCuSuccess)
      return TheFakeCuda().create_result;
    const int fd = memfd_create("fake", MFD_CLOEXEC);
    *memory = static_cast<CuMemory>(fd);
    return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? kCuSuccess : 1;
  };
  driver.memory_export = [](void* descriptor, CuMemory memory, int, unsigned long long) {
    *static_cast<int*>(descriptor) = dup(static_cast<int>(memory));
    return kCuSuccess;
  };
  driver.memory_import = [](CuMemory* memory, void* descriptor, int) {
    *memory = static_cast<CuMemory>(dup(static_cast<int>(reinterpret_cast<intptr_t>(descriptor))));
    return kCuSuccess;
  };
  driver.memory_release = [](CuMemory memory) {
    close(static_cast<int>(memory));
    return kCuSuccess;
  };
  driver.address_reserve = [](CuAddress* address, std::size_t bytes, std::size_t, CuAddress,
                              unsigned long long) {
    *address = reinterpret_cast<CuAddress>(
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return kCuSuccess;
  };
  driver.address_free = [](CuAddress address, std::size_t bytes) {
    munmap(reinterpret_cast<void*>(address), bytes);
    return kCuSuccess;
  };
  driver.map = [](CuAddress address, std::size_t bytes, std::size_t, CuMemory memory,
                  unsigned long long) {
    mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
         static_cast<int>(memory), 0);
    return kCuSuccess;
  };
  driver.unmap = [](CuAddress, std::size_t) { return kCuSuccess; };
  driver.set_access = [](CuAddress, std::size_t, const CuAccess*, std::size_t) {
    return kCuSuccess;
  };
}

inline CudaDriver NewFakeDriver() {
  TheFakeCuda() = {};
  CudaDriver driver;
  driver.init = [](unsigned) { return kCuSuccess; };
  driver.error_name = [](CuResult, const char** name) {
    *name = "FAKE_ERROR";
    return kCuSuccess;
  };
  driver.error_string = [](CuResult, const char** text) {
    *text = "as the test wants";
    return kCuSuccess;
  };
  driver.device_get = [](CuDevice* device, int) {
    *device = 0;
    return kCuSuccess;
  };
  driver.device_name = [](char* name, int bytes, CuDevice) {
    std::strncpy(name, "Fake GPU", static_cast<std::size_t>(bytes));
    return kCuSuccess;
  };
  driver.device_attribute = [](int* value, int, CuDevice) {
    *value = 0;
    return kCuSuccess;
  };
  driver.primary_retain = [](CuContext*, CuDevice) { return kCuSuccess; };
  driver.set_current = [](CuContext) { return kCuSuccess; };
  driver.synchronize = [] { return TheFakeCuda().synchronize_result; };
  driver.event_create = [](CuEvent*, unsigned) { return kCuSuccess; };
  driver.event_record = [](CuEvent, CuStream) { return kCuSuccess; };
  driver.event_synchronize = [](CuEvent) { return kCuSuccess; };
  driver.event_elapsed = [](float* ms, CuEvent, CuEvent) {
    *ms = 1.5F;
    return kCuSuccess;
  };
  SetFakeMemory(driver);
  SetFakeSharing(driver);
  return driver;
}

}  // namespace pike::gpu
