#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "common/base/mutex.h"

namespace pike {

// Runs `act` once, on a thread of its own, when `stop` is requested: std::stop_callback for work
// that takes time, since whoever requests the stop does not wait for it. The destructor waits for
// an `act` that has begun and keeps one that has not from running.
class RunOnStop {
 public:
  RunOnStop(const std::stop_token& stop, std::function<void()> act)
      : act_(std::move(act)), thread_([this] { Run(); }) {
    wake_.emplace(stop, Wake{this});
  }
  ~RunOnStop() {
    wake_.reset();
    MutexLock lock(&mutex_);
    is_over_ = true;
    changed_.NotifyAll();
  }
  RunOnStop(const RunOnStop&) = delete;
  RunOnStop& operator=(const RunOnStop&) = delete;

 private:
  struct Wake {
    RunOnStop* owner;
    void operator()() const {
      MutexLock lock(&owner->mutex_);
      owner->is_wanted_ = true;
      owner->changed_.NotifyAll();
    }
  };

  void Run() {
    {
      MutexLock lock(&mutex_);
      while (!is_wanted_ && !is_over_)
        changed_.Wait(&mutex_);
      if (!is_wanted_)
        return;
    }
    act_();
  }

  const std::function<void()> act_;
  Mutex mutex_;
  CondVar changed_;
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::stop_callback<Wake>> wake_;
  std::jthread thread_;  // last: joined while the rest is still there
};

}  // namespace pike
