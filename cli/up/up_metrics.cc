#include "cli/up/up_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace pike::cli {

struct UpMetrics::Families {
  explicit Families(prometheus::Registry* registry)
      : running(prometheus::BuildGauge()
                    .Name("pike_up_running")
                    .Help("1 while the process runs, by process")
                    .Register(*registry)),
        restarts(prometheus::BuildCounter()
                     .Name("pike_up_restarts_total")
                     .Help("Processes that died and were started again, by process")
                     .Register(*registry)) {}

  prometheus::Family<prometheus::Gauge>& running;
  prometheus::Family<prometheus::Counter>& restarts;
};

UpMetrics::UpMetrics(prometheus::Registry* registry)
    : families_(std::make_unique<Families>(registry)) {}

UpMetrics::~UpMetrics() = default;

void UpMetrics::SetRunning(const std::string& process, bool is_running) {
  families_->running.Add({{"process", process}}).Set(is_running ? 1 : 0);
  families_->restarts.Add({{"process", process}});  // shown as 0 until there is one
}

void UpMetrics::CountRestart(const std::string& process) {
  families_->restarts.Add({{"process", process}}).Increment();
}

}  // namespace pike::cli
