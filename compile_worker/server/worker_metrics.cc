#include "compile_worker/server/worker_metrics.h"

#include <string>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace pike::compile_worker {
namespace {

// Seconds: from a warm import to the longest build.
const prometheus::Histogram::BucketBoundaries& Buckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {0.1, 0.3, 1,  2,   5,
                                                                  10,  20,  60, 120, 300};
  return buckets;
}

}  // namespace

struct WorkerMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : builds(prometheus::BuildHistogram()
                   .Name("pike_build_seconds")
                   .Help("Builds made here, by how they ended")
                   .Register(*registry)),
        answers(prometheus::BuildCounter()
                    .Name("pike_build_requests_total")
                    .Help("Answered build requests, by where the artifact came from")
                    .Register(*registry)),
        stages(prometheus::BuildHistogram()
                   .Name("pike_worker_stage_seconds")
                   .Help("Time in a stage on this worker")
                   .Register(*registry)),
        slots(prometheus::BuildGauge()
                  .Name("pike_compile_worker_slots")
                  .Help("Leases this worker can hold at once, and those that run")
                  .Register(*registry)),
        compile_stage(stages.Add({{"stage", "compile"}}, Buckets())),
        slots_total(slots.Add({{"state", "all"}})),
        slots_busy(slots.Add({{"state", "busy"}})) {}

  prometheus::Family<prometheus::Histogram>& builds;
  prometheus::Family<prometheus::Counter>& answers;
  prometheus::Family<prometheus::Histogram>& stages;
  prometheus::Family<prometheus::Gauge>& slots;
  prometheus::Histogram& compile_stage;
  prometheus::Gauge& slots_total;
  prometheus::Gauge& slots_busy;
};

WorkerMetrics::WorkerMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

WorkerMetrics::~WorkerMetrics() = default;

void WorkerMetrics::ObserveBuild(absl::string_view outcome, double seconds) {
  families_->builds.Add({{"outcome", std::string(outcome)}}, Buckets()).Observe(seconds);
}

void WorkerMetrics::CountAnswer(absl::string_view source) {
  families_->answers.Add({{"source", std::string(source)}}).Increment();
}

void WorkerMetrics::ObserveCompileStage(double seconds) {
  families_->compile_stage.Observe(seconds);
}

void WorkerMetrics::SetSlots(size_t slots) {
  families_->slots_total.Set(static_cast<double>(slots));
}

void WorkerMetrics::AddBusySlots(int change) {
  families_->slots_busy.Increment(change);
}

}  // namespace pike::compile_worker
