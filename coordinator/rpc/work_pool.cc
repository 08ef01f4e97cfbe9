#include "coordinator/rpc/work_pool.h"

#include <chrono>
#include <utility>

namespace pike::coordinator {

WorkPool::WorkPool(size_t threads, size_t waiting_max) : waiting_(waiting_max) {
  for (size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this] { Work(); });
}

WorkPool::~WorkPool() {
  is_closed_ = true;
  waiting_.Close();
}

bool WorkPool::TryRun(std::function<void()> work) {
  return waiting_.TryPush(std::move(work));
}

void WorkPool::Work() {
  while (true) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
    const std::vector<std::function<void()>> taken = waiting_.TakeBatch(1, deadline);
    if (taken.empty() && is_closed_)
      return;
    for (const std::function<void()>& work : taken)
      work();
  }
}

}  // namespace pike::coordinator
