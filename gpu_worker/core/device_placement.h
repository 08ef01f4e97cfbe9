#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/base/clock.h"

namespace pike::gpu {

// A device of this worker as placement sees it.
struct DeviceLoad {
  size_t evaluations = 0;
  MonoTime quarantined_until{};  // passed: it is healthy
};

// The device for the next evaluation: a healthy one before a quarantined one, then the least busy,
// then the first. REQUIRES: there is one.
inline size_t PickDevice(const std::vector<DeviceLoad>& loads, MonoTime now) {
  size_t best = 0;
  for (size_t i = 1; i < loads.size(); ++i) {
    const bool is_quarantined = now < loads[i].quarantined_until;
    const bool is_best_quarantined = now < loads[best].quarantined_until;
    const bool is_better = is_quarantined != is_best_quarantined
                               ? !is_quarantined
                               : loads[i].evaluations < loads[best].evaluations;
    if (is_better)
      best = i;
  }
  return best;
}

// From when on a device is healthy, if all keep their quarantines; passed if one is. REQUIRES:
// there is a device.
inline MonoTime HealthyFrom(const std::vector<DeviceLoad>& loads) {
  MonoTime earliest = loads[0].quarantined_until;
  for (const DeviceLoad& load : loads)
    earliest = std::min(earliest, load.quarantined_until);
  return earliest;
}

}  // namespace pike::gpu
