#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mailbox.h"

namespace pike::coordinator {

// A few threads for what waits on the disk, so that gRPC's own threads never do. Thread-safe.
class WorkPool {
 public:
  WorkPool(size_t threads, size_t waiting_max);
  // Runs what was accepted, then joins.
  ~WorkPool();

  // False: too much waits, or the pool is closed; the caller answers RESOURCE_EXHAUSTED.
  bool TryRun(std::function<void()> work);

 private:
  void Work();

  Mailbox<std::function<void()>> waiting_;
  std::atomic<bool> is_closed_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace pike::coordinator
