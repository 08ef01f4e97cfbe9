#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// No queue, table or tenant is above its bound after any step. Evaluations whose verdict was
// withdrawn come on top: they were let in once.
class BoundsChecker : public Checker {
 public:
  explicit BoundsChecker(const CoreOptions& limits) : limits_(limits) {}

  void OnRecord(const Record& record) override {
    if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&record))
      again_.insert(withdrawn->evaluation_id);
    if (const auto* ended = std::get_if<EvaluationEnded>(&record))
      again_.erase(ended->evaluation_id);
  }

  void OnRestart(const Core&, const Rows&) override { last_.reset(); }

  // The records of a step follow it, so it is looked at before the next one.
  void OnStep(const Core& core) override {
    if (last_.has_value())
      CheckLast();
    last_ = {core.Load(), core.ActiveEvaluations()};
    Require(last_->load.queued_run + last_->load.leases_run <= limits_.queue_run_max,
            "bounds: run stage holds " +
                std::to_string(last_->load.queued_run + last_->load.leases_run));
    const auto workers = core.Workers();
    Require(workers.size() <= limits_.workers_max, "bounds: too many workers");
    for (const WorkerView& worker : workers)
      Require(worker.leases <= worker.worker.slots,
              "bounds: more leases than slots at " + worker.worker.worker_id.value);
  }

 private:
  struct Step {
    LoadView load;
    std::vector<EvaluationView> active;
  };

  void CheckLast() const {
    const size_t compile = last_->load.queued_compile + last_->load.leases_compile;
    Require(compile <= limits_.queue_compile_max + again_.size(),
            "bounds: compile stage holds " + std::to_string(compile));
    std::map<Principal, size_t> count;
    for (const EvaluationView& evaluation : last_->active) {
      const bool is_new = again_.count(evaluation.evaluation_id) == 0;
      Require(!is_new || ++count[evaluation.principal] <= limits_.evaluations_per_principal_max,
              "bounds: too many evaluations of " + evaluation.principal.value);
    }
  }

  const CoreOptions limits_;
  std::set<EvaluationId> again_;
  std::optional<Step> last_;
};

}  // namespace

std::unique_ptr<Checker> NewBoundsChecker(const CoreOptions& limits) {
  return std::make_unique<BoundsChecker>(limits);
}

}  // namespace pike::coordinator::sim
