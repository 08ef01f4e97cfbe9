#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// An accepted evaluation ends in exactly one verdict, once, and the verdict outlives every crash.
class VerdictChecker : public Checker {
 public:
  void OnRecord(const Record& record) override {
    if (const auto* accepted = std::get_if<EvaluationAccepted>(&record)) {
      Require(accepted_.insert(accepted->evaluation_id).second,
              "verdict: id accepted twice: " + ToText(accepted->evaluation_id));
    }
    if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&record)) {
      Require(records_.erase(withdrawn->evaluation_id) == 1,
              "verdict: withdrawn and never given: " + ToText(withdrawn->evaluation_id));
      withdrawn_.insert(withdrawn->evaluation_id);
      rows_.erase(withdrawn->evaluation_id);
    }
    if (const auto* ended = std::get_if<EvaluationEnded>(&record))
      Require(records_.emplace(ended->evaluation_id, ended->kind).second,
              "verdict: ended twice: " + ToText(ended->evaluation_id));
  }

  void OnRow(const EndEvaluation& end) override {
    const EvaluationId id = end.evaluation_id;
    const VerdictKind kind = std::visit([](const auto& v) { return v.kind; }, end.verdict);
    Require(accepted_.count(id) == 1, "verdict: of an evaluation never accepted: " + ToText(id));
    Require(rows_.emplace(id, kind).second, "verdict: a second verdict for " + ToText(id));
    // One that was withdrawn in the same batch has no record any more.
    const auto record = records_.find(id);
    const bool is_gone = record == records_.end() && withdrawn_.count(id) == 1;
    Require(is_gone || (record != records_.end() && record->second == kind),
            "verdict: row and record differ for " + ToText(id));
  }

  void OnRestart(const Core&, const Rows& ended) override {
    for (const auto& [id, kind] : rows_) {
      const auto found = ended.find(id);
      Require(found != ended.end() && found->second == kind,
              "verdict: lost or changed in a crash: " + ToText(id));
    }
  }

  void AtEnd(const Rows& ended) override {
    for (const EvaluationId id : accepted_)
      Require(ended.count(id) == 1, "verdict: none for " + ToText(id));
  }

 private:
  std::set<EvaluationId> accepted_;
  std::set<EvaluationId> withdrawn_;  // once, at least
  std::map<EvaluationId, VerdictKind> records_;
  std::map<EvaluationId, VerdictKind> rows_;
};

}  // namespace

std::unique_ptr<Checker> NewVerdictChecker() {
  return std::make_unique<VerdictChecker>();
}

}  // namespace pike::coordinator::sim
