#include "compile_worker/server/lease_slots.h"

#include <utility>

#include "common/base/clock.h"

namespace pike::compile_worker {
namespace {

// Leases that wait: a cancelled one keeps its thread for a while after its slot was given away.
size_t WaitingMax(size_t slots) {
  return 2 * slots + 16;
}

service::LeaseKey KeyOf(const v1::Lease& lease) {
  return {lease.lease_id(), lease.attempt()};
}

}  // namespace

LeaseSlots::LeaseSlots(size_t slots, Run run, Finish finish)
    : run_(std::move(run)), finish_(std::move(finish)), waiting_(WaitingMax(slots)) {
  for (size_t i = 0; i < slots; ++i)
    threads_.emplace_back([this] { RunSlot(); });
}

LeaseSlots::~LeaseSlots() {
  waiting_.Close();
  std::vector<std::stop_source> sources;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, source] : held_)
      sources.push_back(source);
  }
  for (std::stop_source& source : sources)
    source.request_stop();
  threads_.clear();
}

bool LeaseSlots::Start(v1::Lease lease) {
  const service::LeaseKey key = KeyOf(lease);
  {
    MutexLock lock(&mutex_);
    if (!held_.emplace(key, std::stop_source()).second)
      return true;  // a repeated message
  }
  if (waiting_.TryPush(std::move(lease)))
    return true;
  MutexLock lock(&mutex_);
  held_.erase(key);
  return false;
}

void LeaseSlots::Cancel(const service::LeaseKey& key) {
  std::stop_source source(std::nostopstate);
  {
    MutexLock lock(&mutex_);
    const auto it = held_.find(key);
    if (it == held_.end())
      return;
    source = it->second;
  }
  source.request_stop();
}

void LeaseSlots::RunSlot() {
  while (true) {
    std::vector<v1::Lease> batch = waiting_.TakeBatch(1, MonoTime::max());
    if (batch.empty())
      return;  // closed
    const v1::Lease& lease = batch.front();
    std::stop_token stop;
    {
      MutexLock lock(&mutex_);
      stop = held_.at(KeyOf(lease)).get_token();
    }
    v1::LeaseResult result;
    if (!stop.stop_requested())
      result = run_(lease, stop);
    const bool is_wanted = !stop.stop_requested();
    {
      MutexLock lock(&mutex_);
      held_.erase(KeyOf(lease));
    }
    if (is_wanted)
      finish_(std::move(result));
  }
}

}  // namespace pike::compile_worker
