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

// Whether what was seen shows that the device works: the reference computed what the judge did on
// it. A candidate that fails earlier or otherwise says nothing about the device. Pure.
inline bool ShowsHealthyDevice(const Observation& seen) {
  return seen.event == Event::kDone ||
         (seen.event == Event::kMismatch && !seen.is_reference_mismatch &&
          seen.side == Side::kCandidate);
}

}  // namespace pike::gpu
