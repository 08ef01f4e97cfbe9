#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.h"

namespace pike::gpu {

// A deadline whose clock can be stopped: builds that the broker makes for a candidate are not
// charged to it. Pauses nest. Pure; not thread-safe.
class PausableDeadline {
 public:
  PausableDeadline(MonoTime now, std::chrono::milliseconds budget) : deadline_(now + budget) {}

  void Pause(MonoTime now) {
    if (pauses_++ == 0)
      paused_at_ = now;
  }
  void Resume(MonoTime now) {
    if (pauses_ > 0 && --pauses_ == 0)
      deadline_ += now - paused_at_;
  }
  bool is_paused() const { return pauses_ > 0; }
  bool HasPassed(MonoTime now) const { return !is_paused() && now >= deadline_; }
  // When it passes; nothing while it is paused.
  std::optional<MonoTime> At() const {
    return is_paused() ? std::nullopt : std::optional<MonoTime>(deadline_);
  }

 private:
  MonoTime deadline_;
  MonoTime paused_at_{};
  int pauses_ = 0;
};

}  // namespace pike::gpu
