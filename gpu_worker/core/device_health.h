#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/clock.h"

namespace pike::gpu {

// Whether a device can be trusted with evaluations. Faults of its own in a row quarantine it; when
// that is over the next evaluation tries it with fresh processes, and one more fault quarantines it
// for twice as long. Faults of what was on it when the quarantine began do not count. Pure; not
// thread-safe.
class DeviceHealth {
 public:
  static constexpr int kFaultsMax = 2;
  static constexpr std::chrono::seconds kQuarantineMin{30};
  static constexpr std::chrono::seconds kQuarantineMax{600};

  // Returns for how long it is quarantined by this; zero: it is not. One fault that leaves no doubt
  // suffices.
  std::chrono::seconds OnFault(MonoTime now, bool is_beyond_doubt = false) {
    if (IsQuarantined(now))
      return std::chrono::seconds(0);
    faults_ = is_beyond_doubt ? std::max(faults_ + 1, kFaultsMax) : faults_ + 1;
    if (faults_ < kFaultsMax)
      return std::chrono::seconds(0);
    const std::chrono::seconds length = next_length_;
    until_ = now + length;
    next_length_ = std::min(next_length_ * 2, kQuarantineMax);
    return length;
  }
  // An evaluation showed that the device works.
  void OnSuccess() {
    faults_ = 0;
    next_length_ = kQuarantineMin;
  }
  bool IsQuarantined(MonoTime now) const { return now < until_; }
  MonoTime quarantined_until() const { return until_; }

 private:
  int faults_ = 0;
  std::chrono::seconds next_length_ = kQuarantineMin;
  MonoTime until_{};
};

}  // namespace pike::gpu
