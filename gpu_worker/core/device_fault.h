#pragma once

#include "gpu_worker/core/observation.h"

namespace pike::gpu {

// Whether what was seen would be held against a candidate, but can come from a device that failed
// under it. Pure.
inline bool CanBeDeviceFault(const Observation& seen) {
  if (seen.side != Side::kCandidate)
    return false;
  switch (seen.event) {
    case Event::kProcessGone:
    case Event::kDeadline:
    case Event::kCallFailed:
    case Event::kMismatch:
    case Event::kWorkLeft:
      return true;
    case Event::kLoadFailed:
      return seen.load_where != "parse" && seen.load_where != "entry";
    case Event::kDone:
    case Event::kViolation:
    case Event::kTaskFailed:
    case Event::kJudgeStuck:
    case Event::kEnvironment:
    case Event::kDeviceFault:
    case Event::kCancelled:
      break;
  }
  return false;
}

}  // namespace pike::gpu
