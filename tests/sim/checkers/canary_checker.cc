#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// Where there are canaries, no GPU worker runs a candidate before its certificate or after it
// failed, and no verdict since the last certificate of a worker that misjudged one stands.
class CanaryChecker : public Checker {
 public:
  explicit CanaryChecker(const CoreOptions& limits) : has_canaries_(!limits.canaries.empty()) {}

  void OnRecord(const Record& record) override {
    if (!has_canaries_)
      return;
    if (const auto* granted = std::get_if<LeaseGranted>(&record)) {
      const bool is_run = granted->kind == LeaseKind::kRun;
      Require(!is_run || certified_.count(granted->worker_id) == 1,
              "canary: a run without a certificate at " + granted->worker_id.value);
    }
    if (const auto* ended = std::get_if<EvaluationEnded>(&record)) {
      if (!ended->kept_of.value.empty())
        said_[ended->kept_of].insert(ended->evaluation_id);
    }
    if (const auto* certificate = std::get_if<CertificateGranted>(&record)) {
      certified_.insert(certificate->worker_id);
      said_.erase(certificate->worker_id);
    }
    if (const auto* failed = std::get_if<CanaryFailed>(&record)) {
      certified_.erase(failed->worker_id);
      if (failed->reason.find("no verdict") == std::string::npos)
        owed_.merge(said_[failed->worker_id]);
      said_.erase(failed->worker_id);
    }
    if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&record))
      owed_.erase(withdrawn->evaluation_id);
    if (const auto* forgotten = std::get_if<WorkerForgotten>(&record)) {
      certified_.erase(forgotten->worker_id);
      said_.erase(forgotten->worker_id);
    }
  }

  void OnStep(const Core&) override { CheckOwed(); }
  void OnRestart(const Core&, const Rows&) override { CheckOwed(); }
  void AtEnd(const Rows&) override { CheckOwed(); }

 private:
  void CheckOwed() const {
    Require(owed_.empty(), "canary: a verdict of a worker that misjudged one stands" +
                               (owed_.empty() ? "" : ": " + ToText(*owed_.begin())));
  }

  const bool has_canaries_;
  std::set<WorkerId> certified_;
  std::map<WorkerId, std::set<EvaluationId>> said_;  // since the last certificate
  std::set<EvaluationId> owed_;                      // verdicts to be withdrawn in this batch
};

}  // namespace

std::unique_ptr<Checker> NewCanaryChecker(const CoreOptions& limits) {
  return std::make_unique<CanaryChecker>(limits);
}

}  // namespace pike::coordinator::sim
