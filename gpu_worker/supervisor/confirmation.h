#pragma once

#include "pike/v1/types.pb.h"
#include "pike/v1/worker.pb.h"

namespace pike::gpu {

// Whether `result` would make its program the best of its task, so that it is measured again before
// it is believed: the largest of many measurements is too large. `best_speedup`: 0 if none is
// known.
bool NeedsConfirmation(const v1::LeaseResult& result, double best_speedup);

// Joins both evaluations of one program, the second in fresh processes: what the second says
// stands, and the first's measurement is kept beside it. REQUIRES: NeedsConfirmation(first).
v1::LeaseResult Confirmed(const v1::LeaseResult& first, v1::LeaseResult second);

}  // namespace pike::gpu
