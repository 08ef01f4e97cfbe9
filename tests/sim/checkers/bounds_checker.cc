#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// No queue, table or tenant is above its bound after any step.
class BoundsChecker : public Checker {
 public:
  explicit BoundsChecker(const CoreOptions& limits) : limits_(limits) {}

  void OnStep(const Core& core) override {
    const LoadView load = core.Load();
    Require(
        load.queued_compile + load.leases_compile <= limits_.queue_compile_max,
        "bounds: compile stage holds " + std::to_string(load.queued_compile + load.leases_compile));
    Require(load.queued_run + load.leases_run <= limits_.queue_run_max,
            "bounds: run stage holds " + std::to_string(load.queued_run + load.leases_run));
    std::map<Principal, size_t> count;
    for (const EvaluationView& evaluation : core.ActiveEvaluations()) {
      Require(++count[evaluation.principal] <= limits_.evaluations_per_principal_max,
              "bounds: too many evaluations of " + evaluation.principal.value);
    }
    const auto workers = core.Workers();
    Require(workers.size() <= limits_.workers_max, "bounds: too many workers");
    for (const WorkerView& worker : workers)
      Require(worker.leases <= worker.worker.slots,
              "bounds: more leases than slots at " + worker.worker.worker_id.value);
  }

 private:
  const CoreOptions limits_;
};

}  // namespace

std::unique_ptr<Checker> NewBoundsChecker(const CoreOptions& limits) {
  return std::make_unique<BoundsChecker>(limits);
}

}  // namespace pike::coordinator::sim
