#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "common/device/xid.h"

namespace pike::device {

// A GPU as its driver describes it.
struct GpuInfo {
  std::string uuid;  // "GPU-..."
  std::string name;  // product, e.g. "NVIDIA H200"
  std::string arch;  // compute capability, e.g. "9.0"
  int minor = 0;     // of /dev/nvidia<minor>
  uint64_t memory_bytes = 0;
  bool is_persistent = false;  // the driver keeps it initialised while nobody uses it
};

// A process with a context on a GPU, as numbered in the driver's pid namespace.
struct GpuProcess {
  pid_t pid = 0;
  std::optional<uint64_t> memory_bytes;
  bool is_graphics_only = false;  // as a desktop's: it draws, but does not compute
};

// What a GPU does now. What the driver does not tell is absent.
struct GpuReading {
  std::optional<uint32_t> sm_clock_mhz;
  std::optional<uint32_t> memory_clock_mhz;
  std::optional<uint64_t> throttle_reasons;  // NVML's bits
  std::optional<uint32_t> temperature_c;
  std::optional<double> power_w;
  std::optional<uint64_t> ecc_uncorrected;  // since the driver was loaded
  std::optional<uint64_t> memory_used_bytes;
  std::optional<uint64_t> memory_total_bytes;
  std::optional<std::vector<GpuProcess>> processes;
};

// Looks at this machine's GPUs. Threads: any member from any thread.
class GpuMonitor {
 public:
  virtual ~GpuMonitor() = default;
  // All that this process may use, in the driver's order.
  virtual absl::StatusOr<std::vector<GpuInfo>> List() = 0;
  // NotFound: no such GPU (any more); Unavailable: it is lost.
  virtual absl::StatusOr<GpuReading> Read(const std::string& uuid) = 0;
  // The GPU's errors since the first call of this for it, whoever brought them about. Empty where
  // the driver does not tell.
  virtual XidLog Xids(const std::string& uuid) = 0;
  // Folder of the driver's libraries; empty if not known.
  virtual std::string DriverFolder() const = 0;
};

}  // namespace pike::device
