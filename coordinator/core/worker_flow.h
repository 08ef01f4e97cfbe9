#pragma once

#include <optional>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>

#include "coordinator/core/build_flow.h"
#include "coordinator/core/canary_flow.h"
#include "coordinator/core/evaluation_flow.h"
#include "coordinator/core/event.h"
#include "coordinator/core/state.h"

namespace pike::coordinator {

// Sessions, heartbeats, leases' liveness and drain. Messages of a session that is not a worker's
// present one change nothing.
class WorkerFlow {
 public:
  WorkerFlow(State* state, EvaluationFlow* evaluations, BuildFlow* builds, CanaryFlow* canaries)
      : state_(*state), evaluations_(*evaluations), builds_(*builds), canaries_(*canaries) {}

  void Connect(const WorkerConnected& event);
  void Disconnect(const WorkerDisconnected& event);
  void Heartbeat(const HeartbeatReceived& event);
  void ChangeStage(const StageChanged& event);
  void TakeResult(const LeaseResultReceived& event);
  void RequestBuild(const BuildRequested& event);
  void Drain(const DrainRequested& event);
  void StartDraining(const WorkerDraining& event);
  void JudgePublish(const ArtifactPublished& event);

  // A lease was not heard of in time, or its deadline passed.
  void ExpireLease(LeaseId id);
  // A connected worker was silent for too long, or a lost one is too old.
  void ExpireWorker(const WorkerId& id);

 private:
  std::optional<std::string> WhyRefused(const WorkerFacts& facts);
  bool MakeRoom();
  void Close(WorkerEntry* worker, absl::string_view reason);
  // The worker of a live session, its clock renewed; null, and the session closed, if it is not
  // live.
  WorkerEntry* Hear(const SessionId& session);
  // The worker's own live lease, or null.
  const Lease* FindOwn(const WorkerEntry& worker, const LeaseRef& ref);
  void Reclaim(WorkerEntry* worker, const WorkerConnected& event);
  void SettleStopping(WorkerEntry* worker, const std::vector<LeaseRef>& held);
  void FailLease(const Lease& lease, const Failure& failure);
  // Long enough for a heartbeat that was on its way to have arrived.
  Milliseconds settle_time() const { return 2 * state_.options.heartbeat_interval; }

  State& state_;
  EvaluationFlow& evaluations_;
  BuildFlow& builds_;
  CanaryFlow& canaries_;
};

}  // namespace pike::coordinator
