#include "gpu_worker/runner/cuda_driver.h"

#include <dlfcn.h>

namespace pike::gpu {
namespace {

// Finds functions one after the other and remembers the first that is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  void Find(const char* name, Function& function) {
    void* const symbol = dlsym(library_, name);
    if (symbol == nullptr && missing_.empty())
      missing_ = name;
    function = reinterpret_cast<Function>(symbol);
  }

  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

void FindMemoryFunctions(Finder& finder, CudaDriver& driver) {
  finder.Find("cuMemGetInfo_v2", driver.memory_info);
  finder.Find("cuMemAlloc_v2", driver.allocate);
  finder.Find("cuMemFree_v2", driver.free);
  finder.Find("cuMemsetD8Async", driver.fill);
  finder.Find("cuMemcpyDtoDAsync_v2", driver.copy_device);
  finder.Find("cuMemcpyHtoDAsync_v2", driver.copy_in);
  finder.Find("cuMemcpyDtoHAsync_v2", driver.copy_out);
  finder.Find("cuMemcpy2DAsync_v2", driver.copy_2d);
  finder.Find("cuMemGetAllocationGranularity", driver.memory_granularity);
  finder.Find("cuMemCreate", driver.memory_create);
  finder.Find("cuMemExportToShareableHandle", driver.memory_export);
  finder.Find("cuMemImportFromShareableHandle", driver.memory_import);
  finder.Find("cuMemRelease", driver.memory_release);
  finder.Find("cuMemAddressReserve", driver.address_reserve);
  finder.Find("cuMemAddressFree", driver.address_free);
  finder.Find("cuMemMap", driver.map);
  finder.Find("cuMemUnmap", driver.unmap);
  finder.Find("cuMemSetAccess", driver.set_access);
  finder.Find("cuMemHostRegister_v2", driver.host_register);
  finder.Find("cuMemHostUnregister", driver.host_unregister);
}

}  // namespace

std::string LoadCudaDriver(CudaDriver& driver) {
  // Never closed: contexts live as long as the process.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return "libcuda.so.1 cannot be loaded: the NVIDIA driver is missing here";
  Finder finder(library);
  CudaDriver found;
  finder.Find("cuGetErrorName", found.error_name);
  finder.Find("cuGetErrorString", found.error_string);
  finder.Find("cuDeviceGet", found.device_get);
  finder.Find("cuDeviceGetName", found.device_name);
  finder.Find("cuDeviceGetAttribute", found.device_attribute);
  finder.Find("cuDevicePrimaryCtxRetain", found.primary_retain);
  finder.Find("cuCtxSetCurrent", found.set_current);
  finder.Find("cuCtxSynchronize", found.synchronize);
  finder.Find("cuEventCreate", found.event_create);
  finder.Find("cuEventRecord", found.event_record);
  finder.Find("cuEventSynchronize", found.event_synchronize);
  finder.Find("cuEventElapsedTime", found.event_elapsed);
  FindMemoryFunctions(finder, found);
  finder.Find("cuInit", found.init);
  if (!finder.missing().empty())
    return "libcuda.so.1 has no " + finder.missing() + ": the NVIDIA driver is too old";
  driver = found;
  return "";
}

std::string CudaErrorText(const CudaDriver& driver, CuResult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(result, &name) != kCuSuccess || name == nullptr)
    return "CUDA error " + std::to_string(result);
  if (driver.error_string(result, &text) != kCuSuccess || text == nullptr)
    return name;
  return std::string(name) + ": " + text;
}

CuResult MapMemory(const CudaDriver& driver, CuMemory memory, std::size_t bytes,
                   DeviceMapping& mapping) {
  CuAddress address = 0;
  CuResult result = driver.address_reserve(&address, bytes, /*alignment=*/0, /*hint=*/0,
                                           /*flags=*/0);
  if (result != kCuSuccess)
    return result;
  result = driver.map(address, bytes, /*offset=*/0, memory, /*flags=*/0);
  if (result == kCuSuccess) {
    const CuAccess access = {{kCuOnDevice, 0}, kCuReadWrite};
    result = driver.set_access(address, bytes, &access, /*count=*/1);
    if (result == kCuSuccess) {
      mapping = {address, bytes};
      return kCuSuccess;
    }
    (void)driver.unmap(address, bytes);
  }
  (void)driver.address_free(address, bytes);
  return result;
}

CuResult ImportMemory(const CudaDriver& driver, int fd, std::size_t bytes, DeviceMapping& mapping) {
  CuMemory memory = 0;
  // The interface wants the number itself where a pointer is declared.
  void* const descriptor = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  CuResult result = driver.memory_import(&memory, descriptor, kCuPosixDescriptor);
  if (result != kCuSuccess)
    return result;
  result = MapMemory(driver, memory, bytes, mapping);
  (void)driver.memory_release(memory);  // the mapping keeps it
  return result;
}

void UnmapMemory(const CudaDriver& driver, DeviceMapping& mapping) {
  if (mapping.address == 0)
    return;
  (void)driver.unmap(mapping.address, mapping.bytes);
  (void)driver.address_free(mapping.address, mapping.bytes);
  mapping = {};
}

}  // namespace pike::gpu
