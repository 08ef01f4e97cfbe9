#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace pike {

// Bounded queue from many threads to one: the only way values travel between threads.
template <typename T>
class Mailbox {
 public:
  explicit Mailbox(size_t capacity) : capacity_(capacity) { PIKE_CHECK(capacity > 0); }

  // Returns false, and leaves `value` alone, if the mailbox is full or closed.
  bool TryPush(T&& value) {
    MutexLock lock(&mutex_);
    if (is_closed_ || items_.size() >= capacity_)
      return false;
    items_.push_back(std::move(value));
    not_empty_.NotifyOne();
    return true;
  }

  // Waits for room. Returns false if the mailbox is closed.
  bool Push(T value) {
    MutexLock lock(&mutex_);
    while (!is_closed_ && items_.size() >= capacity_)
      not_full_.Wait(&mutex_);
    if (is_closed_)
      return false;
    items_.push_back(std::move(value));
    not_empty_.NotifyOne();
    return true;
  }

  // Waits until something is there, `deadline` passes or the mailbox is closed, and takes at most
  // `batch_max` values. May return none.
  std::vector<T> TakeBatch(size_t batch_max, std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(&mutex_);
    while (items_.empty() && !is_closed_) {
      if (!not_empty_.WaitUntil(&mutex_, deadline))
        break;
    }
    std::vector<T> batch;
    while (!items_.empty() && batch.size() < batch_max) {
      batch.push_back(std::move(items_.front()));
      items_.pop_front();
    }
    not_full_.NotifyAll();
    return batch;
  }

  // Refuses further values; what is inside can still be taken.
  void Close() {
    MutexLock lock(&mutex_);
    is_closed_ = true;
    not_empty_.NotifyAll();
    not_full_.NotifyAll();
  }

  size_t Size() const {
    MutexLock lock(&mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  CondVar not_full_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pike
