#pragma once

#include <string>

#include "coordinator/core/evaluation_flow.h"
#include "coordinator/core/placement_policy.h"
#include "coordinator/core/state.h"

namespace pike::coordinator {

// Gives leases while there are both work and free slots: late builds first, since a device waits
// for them, then runs, then compiles. Within a queue principals take turns.
class Scheduler {
 public:
  Scheduler(State* state, EvaluationFlow* evaluations)
      : state_(*state), evaluations_(*evaluations) {}

  void Dispatch();

 private:
  void DispatchBuilds();
  void DispatchRuns();
  void DispatchCompiles();
  void GrantBuild(Build* build, const WorkerEntry& worker);
  void GrantEvaluation(const Evaluation& evaluation, LeaseKind kind, const BuildTarget& target,
                       const WorkerEntry& worker);
  bool HasFreeSlot(WorkerKind kind) const;

  State& state_;
  EvaluationFlow& evaluations_;
};

}  // namespace pike::coordinator
