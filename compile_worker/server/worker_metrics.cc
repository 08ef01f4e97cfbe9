#include "compile_worker/server/worker_metrics.h"

#include <string>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace pike::compile_worker {
namespace {

// As those of the GPU worker, so that both add up to one histogram.
const prometheus::Histogram::BucketBoundaries& Buckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
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
                  .Name("pike_worker_slots")
                  .Help("Leases that can run at once")
                  .Register(*registry)
                  .Add({})),
        busy(prometheus::BuildGauge()
                 .Name("pike_worker_busy_slots")
                 .Help("Leases that run")
                 .Register(*registry)
                 .Add({})),
        compile_stage(stages.Add({{"stage", "compile"}}, Buckets())) {
    for (const char* outcome :
         {"ok", "compile_error", "timeout", "out_of_memory", "refused", "infra"})
      builds.Add({{"outcome", outcome}}, Buckets());
    for (const char* source : {"built", "cache", "joined", "store"})
      answers.Add({{"source", source}});
  }

  prometheus::Family<prometheus::Histogram>& builds;
  prometheus::Family<prometheus::Counter>& answers;
  prometheus::Family<prometheus::Histogram>& stages;
  prometheus::Gauge& slots;
  prometheus::Gauge& busy;
  prometheus::Histogram& compile_stage;
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
  families_->slots.Set(static_cast<double>(slots));
}

void WorkerMetrics::AddBusySlots(int change) {
  families_->busy.Increment(change);
}

}  // namespace pike::compile_worker
