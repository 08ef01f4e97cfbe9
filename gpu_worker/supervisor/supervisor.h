#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/build/broker.h"
#include "common/device/gpu.h"
#include "gpu_worker/core/device_health.h"
#include "gpu_worker/core/verdict.h"
#include "gpu_worker/supervisor/bench.h"
#include "gpu_worker/supervisor/device_lock.h"
#include "gpu_worker/supervisor/evaluation.h"
#include "gpu_worker/supervisor/jit_caches.h"
#include "gpu_worker/supervisor/node.h"
#include "pike/v1/types.pb.h"
#include "pike/v1/worker.pb.h"

namespace pike::gpu {

struct SupervisorOptions {
  v1::Device device;
  std::string worker_id;                  // for evidence
  device::GpuMonitor* monitor = nullptr;  // null where there is no GPU; must outlive us
  JitCaches* jit_caches = nullptr;        // of all devices of the worker; null: none are kept
  // Judges kept for their task's next candidate; each costs a torch and the task's weights.
  size_t benches_idle_max = 2;
  std::chrono::milliseconds bench_idle_time_max{120'000};
  // For metrics: an operation's use of the device lock, in seconds. May be empty.
  std::function<void(const std::string& device, absl::string_view operation, double wait_s,
                     double held_s)>
      on_lock;
  // For metrics: the device is quarantined for so long. May be empty.
  std::function<void(const std::string& device, double seconds)> on_quarantine;
};

// Evaluates candidates on one device: owns its lock and its judges, and derives the verdicts.
// Threads: Evaluate from several at once. Ownership: `node` and `broker` must outlive it.
class Supervisor {
 public:
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(SupervisorOptions options, Node* node,
                                                            build::Broker* broker);

  // Checks and times one candidate. The result lacks only its lease's name: a verdict, or an
  // InfraFailure. A failure of ours (a judge that died, say) is tried once more with new processes
  // before it is reported. `on_stage` is called on this thread. After a stop request it returns
  // soon; its result is then worthless. Memory of the device that ran out beside others is tried
  // again with the device alone. No second try is made on a device that is quarantined meanwhile:
  // the answer is a retryable failure then. To begin with a healthy one is the caller's business.
  // A would-be best is evaluated once more, with new processes and inputs; see confirmation.h.
  v1::LeaseResult Evaluate(const EvaluationRequest& request,
                           const std::function<void(v1::Stage)>& on_stage,
                           const std::stop_token& stop);

  // Closes judges that were idle for too long. Call now and then.
  void CloseIdle(MonoTime now) { benches_.CloseIdle(now); }

  // Faults of the device itself, not of candidates, put it out of use until then.
  MonoTime quarantined_until();

 private:
  Supervisor(SupervisorOptions options, Node* node, build::Broker* broker,
             std::unique_ptr<DeviceLock> lock);
  // One evaluation and its second tries.
  v1::LeaseResult EvaluateOnce(const EvaluationRequest& request,
                               const std::function<void(v1::Stage)>& on_stage,
                               const std::stop_token& stop);
  v1::LeaseResult ResultOf(const Decision& decision, EvaluationReport report,
                           const std::vector<std::string>& earlier) const;
  void Learn(const Observation& seen, const Decision& decision);

  const SupervisorOptions options_;
  Node* const node_;
  build::Broker* const broker_;
  const std::unique_ptr<DeviceLock> lock_;
  BenchShelf benches_;
  Mutex mutex_;
  DeviceHealth health_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pike::gpu
