#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// A cancellation that came in time is the end: the evaluation ends as cancelled, nothing is granted
// or built for it any more, and nobody else's evaluation ends as cancelled.
class CancelChecker : public Checker {
 public:
  void OnRecord(const Record& record) override {
    if (const auto* granted = std::get_if<LeaseGranted>(&record))
      Require(cancelled_.count(granted->evaluation_id) == 0,
              "cancel: work for a cancelled evaluation: " + ToText(granted->evaluation_id));
    if (const auto* ended = std::get_if<EvaluationEnded>(&record)) {
      if (ended->kind == VerdictKind::kCancelled)
        cancelled_.insert(ended->evaluation_id);
    }
  }

  void OnRow(const EndEvaluation& end) override {
    const VerdictKind kind = std::visit([](const auto& v) { return v.kind; }, end.verdict);
    rows_[end.evaluation_id] = kind;
    Require(kind != VerdictKind::kCancelled || std::holds_alternative<CoreVerdict>(end.verdict),
            "cancel: a worker cancelled " + ToText(end.evaluation_id));
  }

  void OnCancelAcknowledged(EvaluationId id) override {
    const auto row = rows_.find(id);
    Require(row != rows_.end() && row->second == VerdictKind::kCancelled,
            "cancel: acknowledged, but not the end of " + ToText(id));
  }

 private:
  std::set<EvaluationId> cancelled_;
  std::map<EvaluationId, VerdictKind> rows_;
};

}  // namespace

std::unique_ptr<Checker> NewCancelChecker() {
  return std::make_unique<CancelChecker>();
}

}  // namespace pike::coordinator::sim
