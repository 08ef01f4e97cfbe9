#include "gpu_worker/server/lease_slots.h"

#include <utility>

#include "common/base/clock.h"

namespace pike::gpu {
namespace {

constexpr size_t kWaitingMax = 256;
constexpr std::chrono::hours kIdleWait{1};

service::LeaseKey KeyOf(const v1::Lease& lease) {
  return {lease.lease_id(), lease.attempt()};
}

}  // namespace

LeaseSlots::LeaseSlots(size_t slots, Run run, Finish finish)
    : run_(std::move(run)), finish_(std::move(finish)), waiting_(kWaitingMax) {
  for (size_t i = 0; i < slots; ++i)
    threads_.emplace_back([this] { RunSlot(); });
}

LeaseSlots::~LeaseSlots() {
  is_closing_ = true;
  waiting_.Close();
  {
    MutexLock lock(&mutex_);
    for (auto& [key, stop] : held_)
      stop.request_stop();
  }
  threads_.clear();
}

void LeaseSlots::Start(v1::Lease lease) {
  const service::LeaseKey key = KeyOf(lease);
  {
    MutexLock lock(&mutex_);
    held_[key] = std::stop_source();
  }
  if (waiting_.TryPush(std::move(lease)))
    return;
  {
    MutexLock lock(&mutex_);
    held_.erase(key);
  }
  v1::LeaseResult result;
  result.set_lease_id(key.lease_id);
  result.set_attempt(key.attempt);
  result.mutable_infra_failure()->set_reason("the worker is full or leaving");
  result.mutable_infra_failure()->set_is_retryable(true);
  result.mutable_infra_failure()->set_blame(v1::BLAME_INFRASTRUCTURE);
  finish_(std::move(result));
}

void LeaseSlots::Cancel(const service::LeaseKey& key) {
  MutexLock lock(&mutex_);
  const auto found = held_.find(key);
  if (found != held_.end())
    found->second.request_stop();
}

std::string LeaseSlots::AnyLease() const {
  MutexLock lock(&mutex_);
  return held_.empty() ? "" : held_.begin()->first.lease_id;
}

void LeaseSlots::RunSlot() {
  for (;;) {
    std::vector<v1::Lease> batch = waiting_.TakeBatch(1, MonoNow() + kIdleWait);
    if (batch.empty()) {
      if (is_closing_)
        return;
      continue;
    }
    const v1::Lease lease = std::move(batch.front());
    const service::LeaseKey key = KeyOf(lease);
    std::stop_token stop;
    {
      MutexLock lock(&mutex_);
      stop = held_[key].get_token();
    }
    v1::LeaseResult result;
    if (!stop.stop_requested())
      result = run_(lease, stop);
    {
      MutexLock lock(&mutex_);
      held_.erase(key);
    }
    if (stop.stop_requested())
      continue;
    result.set_lease_id(key.lease_id);
    result.set_attempt(key.attempt);
    finish_(std::move(result));
  }
}

}  // namespace pike::gpu
