#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// No tenant starves: while one waits for some kind of worker, another is served by that kind at
// most once before it is. Tenants are told apart by the candidate, not by what the coordinator
// says.
class FairnessChecker : public Checker {
 public:
  void OnRecord(const Record& record) override {
    if (const auto* accepted = std::get_if<EvaluationAccepted>(&record)) {
      Entry& entry = entries_[accepted->evaluation_id];
      entry.tenant = accepted->payload.substr(0, accepted->payload.find('/'));
      entry.demand = accepted->demand;
      entry.is_waiting = true;
    }
    if (const auto* granted = std::get_if<LeaseGranted>(&record))
      Serve(*granted);
    if (const auto* failed = std::get_if<AttemptFailed>(&record))
      entries_[failed->evaluation_id].is_held_back = true;
    if (const auto* compiled = std::get_if<CompileStageDone>(&record)) {
      entries_[compiled->evaluation_id].target = compiled->target;
      entries_[compiled->evaluation_id].is_waiting = true;
    }
    if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&record)) {
      entries_[withdrawn->evaluation_id].target.reset();
      entries_[withdrawn->evaluation_id].is_waiting = true;
    }
    if (const auto* ended = std::get_if<EvaluationEnded>(&record))
      End(ended->evaluation_id);
  }

  // Turns are not durable.
  void OnRestart(const Core& core, const Rows&) override {
    overtaken_.clear();
    OnStep(core);
  }

  // Who is held back after a failure is not in line until the coordinator says so.
  void OnStep(const Core& core) override {
    for (auto& [id, entry] : entries_) {
      if (!entry.is_held_back)
        continue;
      const auto view = core.FindEvaluation(id);
      entry.is_held_back = view.has_value() && view->is_held_back;
      entry.is_waiting = !entry.is_held_back && view.has_value();
    }
  }

 private:
  struct Entry {
    std::string tenant;
    Demand demand;
    std::optional<BuildTarget> target;  // set: waits for, or has, a run
    bool is_waiting = false;            // in line
    bool is_held_back = false;          // it will be
  };

  // Who leaves the queue unserved has not waited for the turns that came before it returns.
  void End(EvaluationId id) {
    const Entry& entry = entries_[id];
    if (entry.is_waiting) {
      std::erase_if(overtaken_,
                    [&](const auto& count) { return std::get<0>(count.first) == entry.tenant; });
    }
    entries_[id].is_waiting = entries_[id].is_held_back = false;
  }

  void Serve(const LeaseGranted& granted) {
    Entry& served = entries_[granted.evaluation_id];
    served.is_waiting = served.is_held_back = false;
    std::set<std::string> waiting;  // for exactly this kind of worker
    for (const auto& [id, entry] : entries_) {
      if (entry.is_waiting && entry.demand == served.demand && entry.target == served.target &&
          entry.tenant != served.tenant)
        waiting.insert(entry.tenant);
    }
    const bool is_run = granted.kind == LeaseKind::kRun;
    // A turn is a turn, whichever of its evaluations the tenant was served for.
    std::erase_if(overtaken_, [&](const auto& count) {
      return std::get<0>(count.first) == served.tenant && std::get<2>(count.first) == is_run;
    });
    for (const std::string& tenant : waiting) {
      const uint32_t times = ++overtaken_[{tenant, served.tenant, is_run}];
      Require(times <= 1, "fairness: " + tenant + " waits while " + served.tenant + " was served " +
                              std::to_string(times) + " times");
    }
  }

  std::map<EvaluationId, Entry> entries_;
  std::map<std::tuple<std::string, std::string, bool>, uint32_t> overtaken_;
};

}  // namespace

std::unique_ptr<Checker> NewFairnessChecker() {
  return std::make_unique<FairnessChecker>();
}

}  // namespace pike::coordinator::sim
