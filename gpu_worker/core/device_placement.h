#pragma once

#include <cstddef>
#include <vector>

namespace pike::gpu {

// A device of this worker as placement sees it.
struct DeviceLoad {
  size_t evaluations = 0;
  bool is_quarantined = false;
};

// The device for the next evaluation: a healthy one before a quarantined one, then the least busy,
// then the first. REQUIRES: there is one.
inline size_t PickDevice(const std::vector<DeviceLoad>& loads) {
  size_t best = 0;
  for (size_t i = 1; i < loads.size(); ++i) {
    const DeviceLoad& load = loads[i];
    const bool is_better = load.is_quarantined != loads[best].is_quarantined
                               ? !load.is_quarantined
                               : load.evaluations < loads[best].evaluations;
    if (is_better)
      best = i;
  }
  return best;
}

}  // namespace pike::gpu
