#pragma once

#include <optional>
#include <string>

#include <absl/strings/string_view.h>

#include "coordinator/core/evaluation_flow.h"
#include "coordinator/core/event.h"
#include "coordinator/core/state.h"

namespace pike::coordinator {

// Rounds of canaries: programs whose verdicts are known, given to each GPU worker when it joins and
// again every canary_interval, one after the other. The first round may be short; a whole one
// follows soon, and like all later ones gives way to work for a while. A round judged as expected
// is a certificate. A worker that misjudges one gets no more leases, and what it said since its
// last certificate is queued again. One that cannot say, time and again, gets no more leases
// either.
class CanaryFlow {
 public:
  CanaryFlow(State* state, EvaluationFlow* evaluations)
      : state_(*state), evaluations_(*evaluations) {}

  // A worker is connected: plans its next round, and begins an overdue one.
  void Connect(const WorkerId& id);
  // The time of a worker's next round, or of the next try of a canary, has come.
  void TakeDue(const WorkerId& id);
  // Gives the canaries that are due to workers with a slot to spare.
  void Dispatch();
  // A worker answered a live canary lease, which is finished already.
  void TakeOutcome(const Lease& lease, const LeaseResultReceived& event);
  // A canary lease came to nothing, and is finished or revoked already.
  void FailAttempt(const Lease& lease, absl::string_view reason);

 private:
  void Begin(WorkerEntry* worker);
  bool GivesWay(const CanaryRound& round) const;
  // The first canary of the round from `index` on; the number of canaries if none is left.
  size_t NextOf(const CanaryRound& round, size_t index) const;
  void Grant(WorkerEntry* worker);
  void Pass(WorkerEntry* worker);
  // `why`: a line for people, without the canary's name.
  void TryAgain(WorkerEntry* worker, const std::string& why, bool is_misjudged);
  void Condemn(WorkerEntry* worker, const std::string& why, bool is_misjudged);

  State& state_;
  EvaluationFlow& evaluations_;
};

}  // namespace pike::coordinator
