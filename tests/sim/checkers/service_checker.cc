#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// Nothing ends for want of a worker while a connected one takes such work, busy or not. Looks at
// the workers as they were before the batch that ends it, which may lose some.
class ServiceChecker : public Checker {
 public:
  void OnRecord(const Record& record) override {
    if (const auto* accepted = std::get_if<EvaluationAccepted>(&record))
      needs_[accepted->evaluation_id].demand = accepted->demand;
    if (const auto* compiled = std::get_if<CompileStageDone>(&record))
      needs_[compiled->evaluation_id] = {needs_[compiled->evaluation_id].demand, compiled->target,
                                         true};
    if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&record))
      needs_[withdrawn->evaluation_id] = {needs_[withdrawn->evaluation_id].demand, {}, false};
  }

  void OnRow(const EndEvaluation& end) override {
    const Need need = needs_[end.evaluation_id];
    const auto* verdict = std::get_if<CoreVerdict>(&end.verdict);
    if (verdict == nullptr || verdict->reason.find("no worker: ") != 0)
      return;
    Require(!(IsServed(need, before_) && IsServed(need, after_)),
            "service: " + ToText(end.evaluation_id) +
                " ended beside a worker that takes it: " + verdict->reason);
  }

  void OnRestart(const Core& core, const Rows&) override { before_ = after_ = core.Workers(); }
  void OnStep(const Core& core) override {
    before_ = std::move(after_);
    after_ = core.Workers();
  }

 private:
  struct Need {
    Demand demand;
    BuildTarget target;
    bool is_run = false;
  };

  static bool FitsClass(const WorkerFacts& facts, const Need& need) {
    return facts.kind == WorkerKind::kGpu &&
           (need.demand.gpu_class.empty() || need.demand.gpu_class == facts.gpu_class);
  }

  static bool IsServed(const Need& need, const std::vector<WorkerView>& workers) {
    const auto any = [&](const auto& fits) {
      return std::any_of(workers.begin(), workers.end(), [&](const WorkerView& view) {
        return view.state == WorkerState::kReady && fits(view.worker);
      });
    };
    if (need.is_run)
      return any([&](const WorkerFacts& facts) {
        return FitsClass(facts, need) && facts.runtime_digest == need.target.runtime_digest &&
               facts.arch == need.target.arch;
      });
    return any([&](const WorkerFacts& gpu) {
      return FitsClass(gpu, need) && any([&](const WorkerFacts& facts) {
               return facts.kind == WorkerKind::kCompile &&
                      facts.runtime_digest == gpu.runtime_digest;
             });
    });
  }

  std::map<EvaluationId, Need> needs_;
  std::vector<WorkerView> before_;
  std::vector<WorkerView> after_;
};

}  // namespace

std::unique_ptr<Checker> NewServiceChecker() {
  return std::make_unique<ServiceChecker>();
}

}  // namespace pike::coordinator::sim
