#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace pike::coordinator::sim {

// Virtual time: runs what is scheduled in order of time, then of scheduling.
class EventLoop {
 public:
  MonoTime now() const { return now_; }

  void At(MonoTime time, std::function<void()> work) {
    PIKE_CHECK(time >= now_);
    work_.emplace(std::pair(time, next_number_++), std::move(work));
  }
  void After(MonoTime::duration delay, std::function<void()> work) {
    At(now_ + delay, std::move(work));
  }

  // Jumps to the next piece of work and does it. False if there is none.
  bool RunOne() {
    if (work_.empty())
      return false;
    auto node = work_.extract(work_.begin());
    now_ = node.key().first;
    node.mapped()();
    return true;
  }

 private:
  MonoTime now_{std::chrono::hours(1)};
  uint64_t next_number_ = 0;
  std::map<std::pair<MonoTime, uint64_t>, std::function<void()>> work_;
};

}  // namespace pike::coordinator::sim
