#pragma once

#include <cstdint>

#include "gpu_worker/core/observation.h"

namespace pike::gpu {

// What every right program of a task has to move through the memory of its device, as far as it was
// shown (common/inside/task_bytes.py): too little rather than too much.
struct NeededBytes {
  uint64_t read = 0;
  uint64_t written = 0;
};

// No call can be shorter: one launch, the inputs read from memory, and what does not fit into the
// cache written to it, with 20 % slack on the device's peak of `bytes_per_s`. In nanoseconds; 0
// where the peak is not known. Pure.
double FindFloorNs(const NeededBytes& bytes, double bytes_per_s);

// Whether the candidate claims less than the floor. A reference that is below it, too, shows that
// the floor is wrong. REQUIRES: IsComplete(samples).
bool IsBelowFloor(const Samples& samples, double floor_ns);

}  // namespace pike::gpu
