#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// After any crash nothing acknowledged is lost: an accepted evaluation is live or has its row, with
// the candidate that was sent; a verdict that was told is the one in the store; a drained worker
// stays so.
class DurabilityChecker : public Checker {
 public:
  explicit DurabilityChecker(bool keys_are_kept) : keys_are_kept_(keys_are_kept) {}

  void OnAcknowledged(EvaluationId id, const ClientView& view) override {
    const auto [it, is_new_id] = acknowledged_.emplace(id, view.payload);
    Require(it->second == view.payload, "durability: " + ToText(id) + " was given to two requests");
    if (!keys_are_kept_ || view.client_key.empty())
      return;
    const auto [key, is_new_key] = keys_.emplace(std::pair(view.principal, view.client_key), id);
    Require(key->second == id, "durability: two evaluations of key " + view.client_key);
  }

  // After ten minutes away a worker is forgotten, and its drain with it.
  void OnRecord(const Record& record) override {
    if (const auto* forgotten = std::get_if<WorkerForgotten>(&record))
      drained_.erase(forgotten->worker_id);
    if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&record))
      withdrawn_.insert(withdrawn->evaluation_id);
  }

  void OnEffect(const Command& command) override {
    if (const auto* end = std::get_if<EndEvaluation>(&command))
      told_[end->evaluation_id] = std::visit([](const auto& v) { return v.kind; }, end->verdict);
    if (const auto* answer = std::get_if<AnswerDrain>(&command)) {
      if (answer->found)
        drained_.insert(answer->worker_id);
    }
  }

  void OnRestart(const Core& core, const Rows& ended) override {
    for (const auto& [id, payload] : acknowledged_) {
      const auto live = core.FindEvaluation(id);
      Require(live.has_value() || ended.count(id) == 1,
              "durability: acknowledged and lost: " + ToText(id));
      Require(!live.has_value() || live->payload == payload,
              "durability: changed in a crash: " + ToText(id));
    }
    for (const auto& [id, kind] : told_) {
      Require(withdrawn_.count(id) == 1 || (ended.count(id) == 1 && ended.at(id) == kind),
              "durability: told verdict is not in the store: " + ToText(id));
    }
  }

  void OnStep(const Core& core) override {
    for (const WorkerView& worker : core.Workers()) {
      Require(drained_.count(worker.worker.worker_id) == 0 || worker.state != WorkerState::kReady,
              "durability: a drained worker takes work: " + worker.worker.worker_id.value);
    }
  }

 private:
  const bool keys_are_kept_;
  std::map<EvaluationId, std::string> acknowledged_;
  std::map<std::pair<Principal, std::string>, EvaluationId> keys_;
  std::map<EvaluationId, VerdictKind> told_;
  std::set<WorkerId> drained_;
  std::set<EvaluationId> withdrawn_;  // once, at least: what was told may have changed
};

}  // namespace

std::unique_ptr<Checker> NewDurabilityChecker(bool keys_are_kept) {
  return std::make_unique<DurabilityChecker>(keys_are_kept);
}

}  // namespace pike::coordinator::sim
