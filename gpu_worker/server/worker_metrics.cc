#include "gpu_worker/server/worker_metrics.h"

#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace pike::gpu {
namespace {

const prometheus::Histogram::BucketBoundaries& SecondsBuckets() {
  static const prometheus::Histogram::BucketBoundaries kBuckets = {
      0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
  return kBuckets;
}

}  // namespace

struct WorkerMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : lock_wait(prometheus::BuildHistogram()
                      .Name("pike_gpu_worker_lock_wait_seconds")
                      .Help("Waits for the device lock")
                      .Register(*registry)),
        lock_held(prometheus::BuildHistogram()
                      .Name("pike_gpu_worker_lock_held_seconds")
                      .Help("Holds of the device lock")
                      .Register(*registry)),
        stage(prometheus::BuildHistogram()
                  .Name("pike_worker_stage_seconds")
                  .Help("Time of an evaluation in a stage, lock wait excluded")
                  .Register(*registry)),
        build(prometheus::BuildHistogram()
                  .Name("pike_build_seconds")
                  .Help("Extension builds made on this worker")
                  .Register(*registry)),
        frozen(prometheus::BuildCounter()
                   .Name("pike_gpu_worker_frozen_seconds_total")
                   .Help("Evaluations stood still for a neighbour's timing, summed over them")
                   .Register(*registry)),
        quarantined(prometheus::BuildCounter()
                        .Name("pike_gpu_worker_quarantined_seconds_total")
                        .Help("The device was put out of use after faults of its own")
                        .Register(*registry)),
        slots(prometheus::BuildGauge()
                  .Name("pike_worker_slots")
                  .Help("Evaluations that can run at once")
                  .Register(*registry)
                  .Add({})),
        busy(prometheus::BuildGauge()
                 .Name("pike_worker_busy_slots")
                 .Help("Evaluations that run")
                 .Register(*registry)
                 .Add({})) {}

  prometheus::Family<prometheus::Histogram>& lock_wait;
  prometheus::Family<prometheus::Histogram>& lock_held;
  prometheus::Family<prometheus::Histogram>& stage;
  prometheus::Family<prometheus::Histogram>& build;
  prometheus::Family<prometheus::Counter>& frozen;
  prometheus::Family<prometheus::Counter>& quarantined;
  prometheus::Gauge& slots;
  prometheus::Gauge& busy;
};

WorkerMetrics::WorkerMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}
WorkerMetrics::~WorkerMetrics() = default;

void WorkerMetrics::ObserveLock(const std::string& device, absl::string_view operation,
                                double wait_s, double held_s) {
  const prometheus::Labels labels = {{"device", device}, {"operation", std::string(operation)}};
  families_->lock_wait.Add(labels, SecondsBuckets()).Observe(wait_s);
  families_->lock_held.Add(labels, SecondsBuckets()).Observe(held_s);
}

void WorkerMetrics::ObserveStages(const v1::StageTimes& times) {
  const std::pair<const char*, double> stages[] = {{"prepare", times.prepare_ms()},
                                                   {"verify", times.verify_ms()},
                                                   {"measure", times.measure_ms()}};
  for (const auto& [stage, ms] : stages) {
    if (ms > 0)
      families_->stage.Add({{"stage", stage}}, SecondsBuckets()).Observe(ms / 1e3);
  }
}

void WorkerMetrics::ObserveBuild(absl::string_view outcome, double seconds) {
  families_->build.Add({{"outcome", std::string(outcome)}}, SecondsBuckets()).Observe(seconds);
}

void WorkerMetrics::AddFrozen(const std::string& device, double seconds) {
  families_->frozen.Add({{"device", device}}).Increment(seconds);
}
void WorkerMetrics::AddQuarantined(const std::string& device, double seconds) {
  families_->quarantined.Add({{"device", device}}).Increment(seconds);
}

void WorkerMetrics::SetSlots(size_t slots) {
  families_->slots.Set(static_cast<double>(slots));
}
void WorkerMetrics::AddBusySlots(int change) {
  families_->busy.Increment(change);
}

}  // namespace pike::gpu
