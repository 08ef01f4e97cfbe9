#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// What judge and runner use of the CUDA driver API, declared by ourselves and loaded at run time,
// so that both build without a CUDA toolkit and start without a GPU. Types and numbers are those of
// NVIDIA's stable C interface. Standard library only: this is part of the runner's harness.
namespace pike::gpu {

using CuResult = int;
using CuDevice = int;
using CuAddress = uint64_t;  // in device memory
using CuContext = struct CuContextTag*;
using CuStream = struct CuStreamTag*;  // null: the legacy default stream, as torch's default
using CuEvent = struct CuEventTag*;
using CuMemory = uint64_t;  // handle of a physical allocation

inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuOutOfMemory = 2;
inline constexpr CuResult kCuAssert = 710;  // a kernel's assert() failed

inline constexpr int kCuMemoryClockKhz = 36;  // attributes of a device
inline constexpr int kCuMemoryBusBits = 37;
inline constexpr int kCuMaxPitch = 11;

inline constexpr int kCuPinned = 1;             // CuAllocation::type
inline constexpr int kCuPosixDescriptor = 1;    // CuAllocation::handle_types
inline constexpr int kCuOnDevice = 1;           // CuLocation::type
inline constexpr int kCuReadWrite = 3;          // CuAccess::flags
inline constexpr unsigned kCuMemoryDevice = 2;  // CuCopy2d memory types
inline constexpr unsigned kCuMemoryHost = 1;
inline constexpr unsigned kCuHostPortable = 1;  // flags of host_register
inline constexpr unsigned kCuHostMapped = 2;

struct CuLocation {
  int type;
  int id;
};

struct CuAllocation {
  int type;
  int handle_types;
  CuLocation location;
  void* win32_data;
  struct {
    uint8_t compression;
    uint8_t gpu_direct_rdma;
    uint16_t usage;
    uint8_t reserved[4];
  } flags;
};
static_assert(sizeof(CuAllocation) == 32);

struct CuAccess {
  CuLocation location;
  int flags;
};

struct CuCopy2d {
  std::size_t source_x;
  std::size_t source_y;
  unsigned source_type;
  const void* source_host;
  CuAddress source_device;
  void* source_array;
  std::size_t source_pitch;
  std::size_t target_x;
  std::size_t target_y;
  unsigned target_type;
  void* target_host;
  CuAddress target_device;
  void* target_array;
  std::size_t target_pitch;
  std::size_t width_bytes;
  std::size_t height;
};
static_assert(sizeof(CuCopy2d) == 128);

// The functions; all are set if is_loaded(). A test can put its own here.
struct CudaDriver {
  CuResult (*init)(unsigned flags) = nullptr;
  CuResult (*error_name)(CuResult result, const char** name) = nullptr;
  CuResult (*error_string)(CuResult result, const char** text) = nullptr;
  CuResult (*device_get)(CuDevice* device, int ordinal) = nullptr;
  CuResult (*device_name)(char* name, int bytes, CuDevice device) = nullptr;
  CuResult (*device_attribute)(int* value, int attribute, CuDevice device) = nullptr;
  CuResult (*primary_retain)(CuContext* context, CuDevice device) = nullptr;
  CuResult (*set_current)(CuContext context) = nullptr;
  CuResult (*synchronize)() = nullptr;
  CuResult (*memory_info)(std::size_t* free_bytes, std::size_t* total_bytes) = nullptr;
  CuResult (*allocate)(CuAddress* address, std::size_t bytes) = nullptr;
  CuResult (*free)(CuAddress address) = nullptr;
  CuResult (*fill)(CuAddress address, uint8_t value, std::size_t bytes, CuStream stream) = nullptr;
  CuResult (*copy_device)(CuAddress to, CuAddress from, std::size_t bytes,
                          CuStream stream) = nullptr;
  CuResult (*copy_in)(CuAddress to, const void* from, std::size_t bytes, CuStream stream) = nullptr;
  CuResult (*copy_out)(void* to, CuAddress from, std::size_t bytes, CuStream stream) = nullptr;
  CuResult (*copy_2d)(const CuCopy2d* copy, CuStream stream) = nullptr;
  CuResult (*event_create)(CuEvent* event, unsigned flags) = nullptr;
  CuResult (*event_record)(CuEvent event, CuStream stream) = nullptr;
  CuResult (*event_synchronize)(CuEvent event) = nullptr;
  CuResult (*event_elapsed)(float* ms, CuEvent start, CuEvent end) = nullptr;
  CuResult (*memory_granularity)(std::size_t* bytes, const CuAllocation* allocation,
                                 int option) = nullptr;
  CuResult (*memory_create)(CuMemory* memory, std::size_t bytes, const CuAllocation* allocation,
                            unsigned long long flags) = nullptr;
  CuResult (*memory_export)(void* descriptor, CuMemory memory, int handle_type,
                            unsigned long long flags) = nullptr;
  CuResult (*memory_import)(CuMemory* memory, void* descriptor, int handle_type) = nullptr;
  CuResult (*memory_release)(CuMemory memory) = nullptr;
  CuResult (*address_reserve)(CuAddress* address, std::size_t bytes, std::size_t alignment,
                              CuAddress hint, unsigned long long flags) = nullptr;
  CuResult (*address_free)(CuAddress address, std::size_t bytes) = nullptr;
  CuResult (*map)(CuAddress address, std::size_t bytes, std::size_t offset, CuMemory memory,
                  unsigned long long flags) = nullptr;
  CuResult (*unmap)(CuAddress address, std::size_t bytes) = nullptr;
  CuResult (*set_access)(CuAddress address, std::size_t bytes, const CuAccess* access,
                         std::size_t count) = nullptr;
  CuResult (*host_register)(void* bytes, std::size_t size, unsigned flags) = nullptr;
  CuResult (*host_unregister)(void* bytes) = nullptr;

  bool is_loaded() const { return init != nullptr; }
};

// Loads libcuda.so.1. Starts no context. Returns an empty text, or in one line what is missing.
std::string LoadCudaDriver(CudaDriver& driver);

// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered".
std::string CudaErrorText(const CudaDriver& driver, CuResult result);

// Maps memory of another process at an address of this one, for device 0. Both calls need a current
// context. The descriptor stays the caller's.
struct DeviceMapping {
  CuAddress address = 0;
  std::size_t bytes = 0;
};
CuResult MapMemory(const CudaDriver& driver, CuMemory memory, std::size_t bytes,
                   DeviceMapping& mapping);
CuResult ImportMemory(const CudaDriver& driver, int fd, std::size_t bytes, DeviceMapping& mapping);
void UnmapMemory(const CudaDriver& driver, DeviceMapping& mapping);

}  // namespace pike::gpu
