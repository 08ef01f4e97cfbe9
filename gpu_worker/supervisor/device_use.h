#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/device/gpu.h"

namespace pike::gpu {

// Who is on a GPU, as its driver shows it.
struct DeviceUse {
  // Whether the driver shows processes as we number them: ours are among them.
  bool is_visible = false;
  // Processes that compute and are not ours. Empty unless visible.
  std::vector<pid_t> foreign;
  // Likewise, but they only draw: a desktop holds memory, but is no company that voids a timing.
  std::vector<pid_t> graphics;
  // Free memory that there must be if nobody but the shown processes holds any, with room for what
  // the driver itself takes. 0: not known.
  uint64_t memory_floor_bytes = 0;
};

// Pure.
DeviceUse FindDeviceUse(const device::GpuReading& reading, const std::set<pid_t>& ours);

// The first few of them.
std::string PidsText(const std::vector<pid_t>& pids);

// "not visible here", "none", or the first few foreign processes, then those that only draw.
std::string ForeignText(const DeviceUse& use);

}  // namespace pike::gpu
