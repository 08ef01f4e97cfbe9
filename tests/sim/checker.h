#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "coordinator/core/command.h"
#include "coordinator/core/core.h"
#include "coordinator/core/record.h"
#include "tests/sim/sim_options.h"

namespace pike::coordinator::sim {

// Something that must never happen has.
struct SafetyViolation : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Something that must happen has not, long after the faults stopped.
struct LivenessViolation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a client knows of one of its evaluations.
struct ClientView {
  std::string payload;
  Principal principal;
  std::string client_key;
};

// Watches a run from outside: what became durable, what was seen of it, and what workers did.
// Throws SafetyViolation. One invariant per checker.
class Checker {
 public:
  virtual ~Checker() = default;

  // Durable, in order, before any effect of the same batch.
  virtual void OnRecord(const Record&) {}
  virtual void OnRow(const EndEvaluation&) {}
  // Carried out; the world may know of it.
  virtual void OnEffect(const Command&) {}
  // A client was told that its evaluation is accepted.
  virtual void OnAcknowledged(EvaluationId, const ClientView&) {}
  // A client was told that it cancelled a live evaluation.
  virtual void OnCancelAcknowledged(EvaluationId) {}
  // A worker began a piece of work; `running` counts it.
  virtual void OnTaskStarted(const std::string& /*worker*/, uint32_t /*running*/,
                             uint32_t /*slots*/) {}
  // The coordinator came back from its store. `ended` holds the verdicts there.
  using Rows = std::map<EvaluationId, VerdictKind>;
  virtual void OnRestart(const Core&, const Rows& /*ended*/) {}
  // After every step of the coordinator.
  virtual void OnStep(const Core&) {}
  // Faults have stopped and everything has come to rest.
  virtual void AtEnd(const Rows& /*ended*/) {}

 protected:
  // Throws if the fact does not hold.
  static void Require(bool fact, const std::string& otherwise) {
    if (!fact)
      throw SafetyViolation(otherwise);
  }
};

// checkers/*.cc
std::unique_ptr<Checker> NewVerdictChecker();      // exactly one verdict, also after crashes
std::unique_ptr<Checker> NewAttributionChecker();  // no verdict of another candidate
std::unique_ptr<Checker> NewLeaseChecker();        // never two live leases for one piece of work
std::unique_ptr<Checker> NewAttemptsChecker(const CoreOptions& limits);  // bounded, and not at once
std::unique_ptr<Checker> NewBoundsChecker(const CoreOptions& limits);
// No run before a certificate or after a misjudged canary, whose worker's verdicts are withdrawn.
std::unique_ptr<Checker> NewCanaryChecker(const CoreOptions& limits);
std::unique_ptr<Checker> NewCancelChecker();  // cancelled ends as cancelled, and yields nothing
// Nothing acknowledged is lost. `keys_are_kept`: no client key is forgotten in this run.
std::unique_ptr<Checker> NewDurabilityChecker(bool keys_are_kept);
std::unique_ptr<Checker> NewFairnessChecker();  // no tenant starves
std::unique_ptr<Checker> NewServiceChecker();   // no work ends for want of a worker that is there
std::unique_ptr<Checker> NewSlotsChecker();     // a device slot is never over-committed
std::unique_ptr<Checker> NewReplayChecker(const CoreOptions& limits);

std::vector<std::unique_ptr<Checker>> AllCheckers(const SimOptions& options);

}  // namespace pike::coordinator::sim
