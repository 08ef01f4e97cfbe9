#include "gpu_worker/supervisor/device_use.h"

#include <algorithm>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace pike::gpu {
namespace {

// The driver's own share: about 0.6 GiB on an H200, and a little for each process.
constexpr uint64_t kDriverBytesMax = uint64_t{2} << 30;
constexpr size_t kForeignShownMax = 8;

}  // namespace

DeviceUse FindDeviceUse(const device::GpuReading& reading, const std::set<pid_t>& ours) {
  DeviceUse use;
  if (!reading.processes)
    return use;
  uint64_t held = kDriverBytesMax;
  bool is_held_known = reading.memory_total_bytes.has_value();
  for (const device::GpuProcess& process : *reading.processes) {
    if (ours.contains(process.pid))
      use.is_visible = true;
    else
      (process.is_graphics_only ? use.graphics : use.foreign).push_back(process.pid);
    is_held_known = is_held_known && process.memory_bytes.has_value();
    held += process.memory_bytes.value_or(0);
  }
  // A list without ours is another pid namespace's.
  if (!use.is_visible) {
    use.foreign.clear();
    use.graphics.clear();
  }
  if (use.is_visible && is_held_known)
    use.memory_floor_bytes =
        *reading.memory_total_bytes - std::min(*reading.memory_total_bytes, held);
  return use;
}

std::string PidsText(const std::vector<pid_t>& pids) {
  std::vector<pid_t> shown = pids;
  shown.resize(std::min(shown.size(), kForeignShownMax));
  return absl::StrJoin(shown, ", ");
}

std::string ForeignText(const DeviceUse& use) {
  if (!use.is_visible)
    return "not visible here";
  std::vector<std::string> parts;
  if (!use.foreign.empty())
    parts.push_back(PidsText(use.foreign));
  if (!use.graphics.empty())
    parts.push_back(absl::StrCat("graphics only: ", PidsText(use.graphics)));
  return parts.empty() ? "none" : absl::StrJoin(parts, "; ");
}

}  // namespace pike::gpu
