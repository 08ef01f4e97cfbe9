#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/device/gpu.h"

namespace pike::device {

inline constexpr int kDevicesMax = 64;
inline constexpr char kSimulatedClass[] = "simulated";

// Something that candidates are timed on.
struct Device {
  enum class Kind { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  std::string id;         // "cpu", a GPU's UUID, or "simulated-0"
  std::string gpu_class;  // "cpu", "simulated", or as GpuClass
  std::string arch;       // "cpu", or a compute capability
  int minor = -1;         // of a GPU
  uint64_t memory_bytes = 0;
};

// The class of a product: "NVIDIA H200" is "nvidia-h200". Letters, digits and single dashes.
std::string GpuClass(absl::string_view product_name);

// What `text` names among `gpus`:
//   "auto"         all GPUs, or the CPU if there is none
//   "all"          all GPUs
//   "0,2"          by number in the list; "GPU-..." by UUID or the start of one
//   "cpu", "none"  the CPU
//   "simulated:2"  two devices that compute on the CPU, for trials without a GPU
// All of one class and none twice. InvalidArgument: one line that says what to do.
absl::StatusOr<std::vector<Device>> ChooseDevices(const std::string& text,
                                                  const std::vector<GpuInfo>& gpus);

}  // namespace pike::device
