#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/runner/cuda_driver.h"

namespace pike::gpu {

// Compares on the GPU; see BenchDevice::Compare.
using DeviceCompare = std::function<std::optional<TaskFailure>(
    const PlacedTensor& expected, const PlacedTensor& actual, const Tolerance& tolerance,
    TensorError& error)>;

struct GpuOptions {
  // Buffers in host memory even where descriptors of device memory work.
  bool use_memfd = false;
  DeviceCompare compare;
};

// The one visible GPU. Starts its primary context, which is torch's too, and learns what the
// sentinel takes. Uses descriptors of device memory if they work here. `driver` is loaded.
std::optional<TaskFailure> NewGpuDevice(const CudaDriver& driver, GpuOptions options,
                                        std::unique_ptr<BenchDevice>& device);

}  // namespace pike::gpu
