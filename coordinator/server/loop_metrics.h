#pragma once

#include <map>
#include <vector>

#include "coordinator/core/core.h"
#include "coordinator/core/types.h"
#include "pike/v1/evaluation.pb.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace pike::coordinator {

// The coordinator's metrics. Every series exists from the start, so that rates begin at zero.
// `registry` must outlive it. Thread-safe.
class LoopMetrics {
 public:
  explicit LoopMetrics(prometheus::Registry* registry);

  void ObserveQueueWait(Stage stage, Milliseconds wait);
  void CountRetry(RetryReason reason);
  void CountCanaries(CanaryOutcome outcome, uint32_t withdrawn);
  // Verdict and stage seconds of an evaluation that ended.
  void CountEnded(const v1::EvaluationRecord& record);
  void SetLoad(const LoadView& load);
  void SetWorkers(const std::vector<WorkerView>& workers);
  void ObserveCommit(double seconds, size_t records);

 private:
  std::map<Stage, prometheus::Gauge*> queue_depth_;
  prometheus::Gauge* queue_depth_build_;
  std::map<Stage, prometheus::Histogram*> queue_wait_;
  std::map<LeaseKind, prometheus::Gauge*> leases_;
  std::map<VerdictKind, prometheus::Counter*> verdicts_;
  std::map<RetryReason, prometheus::Counter*> retries_;
  std::map<CanaryOutcome, prometheus::Counter*> canary_rounds_;
  prometheus::Counter* withdrawn_;
  std::map<std::pair<WorkerKind, WorkerState>, prometheus::Gauge*> workers_;
  std::map<Stage, prometheus::Histogram*> stage_seconds_;
  prometheus::Histogram* commit_seconds_;
  prometheus::Counter* records_;
};

}  // namespace pike::coordinator
