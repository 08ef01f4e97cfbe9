#include "coordinator/server/loop_metrics.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "coordinator/rpc/convert.h"

namespace pike::coordinator {
namespace {

// From a cached compile to a day in a queue.
const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 3600};
const prometheus::Histogram::BucketBoundaries kCommitSeconds = {0.0001, 0.0003, 0.001, 0.003,
                                                                0.01,   0.03,   0.1,   1};

std::string Text(absl::string_view text) {
  return std::string(text);
}

double Seconds(double ms) {
  return ms / 1e3;
}

}  // namespace

LoopMetrics::LoopMetrics(prometheus::Registry* registry) {
  auto& depth = prometheus::BuildGauge()
                    .Name("pike_coordinator_queue_depth")
                    .Help("Evaluations and late builds that wait for a worker, by stage.")
                    .Register(*registry);
  auto& wait = prometheus::BuildHistogram()
                   .Name("pike_coordinator_queue_wait_seconds")
                   .Help("Time in a queue, until the lease or the end of what got none.")
                   .Register(*registry);
  for (const auto& [stage, name] :
       {std::pair(Stage::kQueuedCompile, "compile"), std::pair(Stage::kQueuedRun, "run")}) {
    queue_depth_[stage] = &depth.Add({{"stage", name}});
    queue_wait_[stage] = &wait.Add({{"stage", name}}, kSeconds);
  }
  queue_depth_build_ = &depth.Add({{"stage", "build"}});
  auto& leases = prometheus::BuildGauge()
                     .Name("pike_coordinator_leases")
                     .Help("Live leases.")
                     .Register(*registry);
  for (const LeaseKind kind :
       {LeaseKind::kCompile, LeaseKind::kRun, LeaseKind::kBuild, LeaseKind::kCanary})
    leases_[kind] = &leases.Add({{"kind", Text(Name(kind))}});
  auto& verdicts = prometheus::BuildCounter()
                       .Name("pike_coordinator_verdicts_total")
                       .Help("Evaluations that ended.")
                       .Register(*registry);
  for (int value = v1::VerdictKind_MIN; value <= v1::VerdictKind_MAX; ++value) {
    const std::optional<VerdictKind> kind = FromProto(static_cast<v1::VerdictKind>(value));
    if (kind.has_value())
      verdicts_[*kind] = &verdicts.Add({{"verdict", Text(Name(*kind))}});
  }
  auto& retries = prometheus::BuildCounter()
                      .Name("pike_coordinator_retries_total")
                      .Help("Attempts that failed and were repeated.")
                      .Register(*registry);
  for (const RetryReason reason :
       {RetryReason::kWorkerLost, RetryReason::kLeaseNotHeld, RetryReason::kDeadlinePassed,
        RetryReason::kInfraFailure, RetryReason::kMalformedResult, RetryReason::kWorkerCondemned})
    retries_[reason] = &retries.Add({{"reason", Text(Name(reason))}});
  auto& rounds = prometheus::BuildCounter()
                     .Name("pike_coordinator_canary_rounds_total")
                     .Help("Rounds of canaries that ended.")
                     .Register(*registry);
  for (const CanaryOutcome outcome :
       {CanaryOutcome::kPassed, CanaryOutcome::kMisjudged, CanaryOutcome::kUndecided})
    canary_rounds_[outcome] = &rounds.Add({{"outcome", Text(Name(outcome))}});
  withdrawn_ = &prometheus::BuildCounter()
                    .Name("pike_coordinator_verdicts_withdrawn_total")
                    .Help("Verdicts of workers that misjudged a canary, queued again.")
                    .Register(*registry)
                    .Add({});
  auto& workers = prometheus::BuildGauge()
                      .Name("pike_coordinator_workers")
                      .Help("Workers of the last ten minutes.")
                      .Register(*registry);
  for (const WorkerKind kind : {WorkerKind::kCompile, WorkerKind::kGpu}) {
    for (const WorkerState state :
         {WorkerState::kReady, WorkerState::kDraining, WorkerState::kLost})
      workers_[{kind, state}] =
          &workers.Add({{"kind", Text(Name(kind))}, {"state", Text(Name(state))}});
  }
  auto& stages = prometheus::BuildHistogram()
                     .Name("pike_coordinator_stage_seconds")
                     .Help("Time in a stage, as reported by the worker whose result decided.")
                     .Register(*registry);
  for (const Stage stage : {Stage::kCompile, Stage::kPrepare, Stage::kVerify, Stage::kMeasure})
    stage_seconds_[stage] = &stages.Add({{"stage", Text(Name(stage))}}, kSeconds);
  commit_seconds_ = &prometheus::BuildHistogram()
                         .Name("pike_coordinator_commit_seconds")
                         .Help("Time of one store transaction.")
                         .Register(*registry)
                         .Add({}, kCommitSeconds);
  records_ = &prometheus::BuildCounter()
                  .Name("pike_coordinator_log_records_total")
                  .Help("Records appended to the log.")
                  .Register(*registry)
                  .Add({});
}

void LoopMetrics::ObserveQueueWait(Stage stage, Milliseconds wait) {
  const auto it = queue_wait_.find(stage);
  if (it != queue_wait_.end())
    it->second->Observe(Seconds(static_cast<double>(wait.count())));
}

void LoopMetrics::CountRetry(RetryReason reason) {
  retries_.at(reason)->Increment();
}

void LoopMetrics::CountCanaries(CanaryOutcome outcome, uint32_t withdrawn) {
  canary_rounds_.at(outcome)->Increment();
  withdrawn_->Increment(withdrawn);
}

void LoopMetrics::CountEnded(const v1::EvaluationRecord& record) {
  const std::optional<VerdictKind> kind = FromProto(record.verdict().kind());
  if (kind.has_value())
    verdicts_.at(*kind)->Increment();
  const v1::StageTimes& times = record.times();
  for (const auto& [stage, ms] : {std::pair(Stage::kCompile, times.compile_ms()),
                                  std::pair(Stage::kPrepare, times.prepare_ms()),
                                  std::pair(Stage::kVerify, times.verify_ms()),
                                  std::pair(Stage::kMeasure, times.measure_ms())}) {
    if (ms > 0)
      stage_seconds_.at(stage)->Observe(Seconds(ms));
  }
}

void LoopMetrics::SetLoad(const LoadView& load) {
  queue_depth_.at(Stage::kQueuedCompile)->Set(load.queued_compile);
  queue_depth_.at(Stage::kQueuedRun)->Set(load.queued_run);
  queue_depth_build_->Set(load.builds_waiting);
  leases_.at(LeaseKind::kCompile)->Set(load.leases_compile);
  leases_.at(LeaseKind::kRun)->Set(load.leases_run);
  leases_.at(LeaseKind::kBuild)->Set(load.leases_build);
  leases_.at(LeaseKind::kCanary)->Set(load.leases_canary);
}

void LoopMetrics::SetWorkers(const std::vector<WorkerView>& workers) {
  std::map<std::pair<WorkerKind, WorkerState>, double> counts;
  for (const WorkerView& view : workers)
    counts[{view.worker.kind, view.state}] += 1;
  for (const auto& [key, gauge] : workers_)
    gauge->Set(counts[key]);
}

void LoopMetrics::ObserveCommit(double seconds, size_t records) {
  commit_seconds_->Observe(seconds);
  records_->Increment(static_cast<double>(records));
}

}  // namespace pike::coordinator
