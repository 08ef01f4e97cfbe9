#pragma once

#include <string>
#include <variant>

#include <absl/strings/string_view.h>

#include "coordinator/core/build_flow.h"
#include "coordinator/core/event.h"
#include "coordinator/core/state.h"

namespace pike::coordinator {

// Why an attempt came to nothing.
struct Failure {
  RetryReason reason = RetryReason::kInfraFailure;
  std::string text;  // one line
  bool is_retryable = true;
  Blame blame = Blame::kInfrastructure;
};

// The life of an evaluation: submission, outcomes of its leases, retries, and its one end.
class EvaluationFlow {
 public:
  EvaluationFlow(State* state, BuildFlow* builds) : state_(*state), builds_(*builds) {}

  void Submit(const EvaluationSubmitted& event);
  void Cancel(const CancelRequested& event);
  // A worker answered a live compile or run lease, which is finished already.
  void TakeOutcome(const Lease& lease, const LeaseResultReceived& event);
  // A compile or run lease came to nothing, and is finished or revoked already.
  void FailAttempt(const Lease& lease, const Failure& failure);
  // An ended evaluation whose verdict is not to be trusted is queued again.
  void Withdraw(EvaluationId id, const std::string& reason);
  // Its queue deadline has come. It ends if for so long no connected worker could have taken it,
  // and goes on waiting otherwise: a busy worker is no reason to give up.
  void TakeQueueDeadline(EvaluationId id);

  // Tells watchers where an evaluation is.
  void Notify(EvaluationId id);

 private:
  void Refuse(const EvaluationSubmitted& event, Refusal refusal, std::string message);
  void FinishCompile(const Lease& lease, const LeaseResultReceived& event);
  void End(EvaluationId id, std::variant<WorkerVerdict, CoreVerdict> verdict,
           const std::string& times_payload);

  State& state_;
  BuildFlow& builds_;
};

}  // namespace pike::coordinator
