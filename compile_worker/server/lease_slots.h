#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <stop_token>
#include <thread>
#include <vector>

#include "common/base/mailbox.h"
#include "common/base/mutex.h"
#include "common/service/worker_session.h"
#include "pike/v1/worker.pb.h"

namespace pike::compile_worker {

// Runs leases, at most one per slot at a time; each can be cancelled. Thread-safe.
class LeaseSlots {
 public:
  using Run = std::function<v1::LeaseResult(const v1::Lease&, std::stop_token)>;
  using Finish = std::function<void(v1::LeaseResult)>;

  // `run` is called on the slots' threads, `finish` after it unless the lease was cancelled.
  LeaseSlots(size_t slots, Run run, Finish finish);
  // Cancels what runs and joins.
  ~LeaseSlots();
  LeaseSlots(const LeaseSlots&) = delete;
  LeaseSlots& operator=(const LeaseSlots&) = delete;

  // Queues a lease. False if more leases wait than there can be (the caller reports it).
  bool Start(v1::Lease lease);
  // Stops a lease that waits or runs; unknown ones are ignored.
  void Cancel(const service::LeaseKey& key);

 private:
  void RunSlot();

  const Run run_;
  const Finish finish_;
  Mailbox<v1::Lease> waiting_;
  Mutex mutex_;
  std::map<service::LeaseKey, std::stop_source> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace pike::compile_worker
