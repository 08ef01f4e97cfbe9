#include <map>
#include <memory>
#include <string>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// No lease, build or verdict carries another candidate than the evaluation's. Simulated workers
// echo the candidate that they were given.
class AttributionChecker : public Checker {
 public:
  void OnRecord(const Record& record) override {
    if (const auto* accepted = std::get_if<EvaluationAccepted>(&record))
      payloads_[accepted->evaluation_id] = accepted->payload;
    if (const auto* compiled = std::get_if<CompileStageDone>(&record))
      Require(compiled->builds_payload == "builds of " + payloads_[compiled->evaluation_id],
              "attribution: builds of another candidate for " + ToText(compiled->evaluation_id));
  }

  void OnRow(const EndEvaluation& end) override {
    const std::string& payload = payloads_[end.evaluation_id];
    Require(end.payload == payload,
            "attribution: row of another candidate for " + ToText(end.evaluation_id));
    if (const auto* verdict = std::get_if<WorkerVerdict>(&end.verdict))
      Require(verdict->payload == "verdict of " + payload,
              "attribution: " + ToText(end.evaluation_id) + " got the " + verdict->payload);
  }

  void OnEffect(const Command& command) override {
    const auto* lease = std::get_if<SendLease>(&command);
    if (lease == nullptr || !lease->evaluation_id.has_value())
      return;
    const std::string& payload = payloads_[*lease->evaluation_id];
    const auto* compile = std::get_if<CompileGrant>(&lease->work);
    const auto* run = std::get_if<RunGrant>(&lease->work);
    Require(compile == nullptr || compile->payload == payload,
            "attribution: compile lease with another candidate");
    Require(run == nullptr ||
                (run->payload == payload && run->builds_payload == "builds of " + payload),
            "attribution: run lease with another candidate");
  }

 private:
  std::map<EvaluationId, std::string> payloads_;
};

}  // namespace

std::unique_ptr<Checker> NewAttributionChecker() {
  return std::make_unique<AttributionChecker>();
}

}  // namespace pike::coordinator::sim
