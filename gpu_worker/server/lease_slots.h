#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mailbox.h"
#include "common/base/mutex.h"
#include "common/service/worker_session.h"
#include "pike/v1/worker.pb.h"

namespace pike::gpu {

// Runs leases, one per slot at a time, in the order they came. Thread-safe.
class LeaseSlots {
 public:
  using Run = std::function<v1::LeaseResult(const v1::Lease&, const std::stop_token&)>;
  using Finish = std::function<void(v1::LeaseResult)>;

  // `run` is called on the slots' threads; `finish` after it, unless the lease was cancelled.
  LeaseSlots(size_t slots, Run run, Finish finish);
  // Cancels everything and joins.
  ~LeaseSlots();
  LeaseSlots(const LeaseSlots&) = delete;
  LeaseSlots& operator=(const LeaseSlots&) = delete;

  // Never blocks. A lease for which there is no room is finished as a retryable failure.
  void Start(v1::Lease lease);
  // Unknown leases are ignored.
  void Cancel(const service::LeaseKey& key);
  // A lease that runs or waits now; empty if there is none.
  std::string AnyLease() const;

 private:
  void RunSlot();

  const Run run_;
  const Finish finish_;
  std::atomic<bool> is_closing_{false};
  Mailbox<v1::Lease> waiting_;
  mutable Mutex mutex_;
  std::map<service::LeaseKey, std::stop_source> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace pike::gpu
