#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.h"

namespace pike::gpu {

// A deadline whose clock can be stopped: builds that the broker makes for a candidate are not
// charged to it, nor is the time in which it is frozen for a neighbour's timing. Pauses nest. Pure;
// not thread-safe.
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
  // Adds time; nothing while it is paused, since the pause gives it anyway.
  void Extend(std::chrono::nanoseconds more) {
    if (!is_paused())
      deadline_ += more;
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
