#include "coordinator/core/worker_flow.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"

namespace pike::coordinator {
namespace {

bool Contains(const std::vector<LeaseRef>& leases, const LeaseRef& ref) {
  return std::find(leases.begin(), leases.end(), ref) != leases.end();
}

bool IsFinished(const WorkerEntry& worker, const LeaseRef& ref) {
  return std::find(worker.finished.begin(), worker.finished.end(), ref) != worker.finished.end();
}

}  // namespace

void WorkerFlow::Connect(const WorkerConnected& event) {
  if (state_.workers.FindSession(event.session) != nullptr)
    return;
  if (const auto why = WhyRefused(event.worker)) {
    state_.Emit(SendRefused{event.session, *why});
    return;
  }
  WorkerEntry* worker = state_.workers.Find(event.worker.worker_id);
  if (worker != nullptr && worker->is_connected())
    Close(worker, "replaced by a newer connection of the same worker");
  if (worker == nullptr || !(worker->facts == event.worker))
    state_.Commit(WorkerSeen{event.worker});
  worker = state_.workers.Find(event.worker.worker_id);
  state_.workers.Connect(event.worker.worker_id, event.session, state_.now);
  Reclaim(worker, event);
  canaries_.Connect(event.worker.worker_id);
  if (worker->drain_reason.has_value() && worker->canary_failure.empty())
    state_.Emit(SendDrain{event.session, *worker->drain_reason});
}

void WorkerFlow::Disconnect(const WorkerDisconnected& event) {
  WorkerEntry* worker = state_.workers.FindSession(event.session);
  if (worker == nullptr)
    return;
  // Its leases live on until they expire, so that it can come back to them; a build reply cannot.
  builds_.DropSession(event.session);
  state_.workers.Disconnect(worker, state_.now);
}

void WorkerFlow::Heartbeat(const HeartbeatReceived& event) {
  WorkerEntry* worker = Hear(event.session);
  if (worker == nullptr)
    return;
  SettleStopping(worker, event.held_leases);
  for (const LeaseRef& ref : event.held_leases) {
    if (FindOwn(*worker, ref) != nullptr) {
      state_.leases.Extend(ref.lease_id, state_.now + state_.options.lease_timeout);
    } else if (worker->stopping.count(ref) == 0 && !IsFinished(*worker, ref)) {
      StopLease(&state_, worker, ref, /*is_seen=*/true);
    }
  }
}

void WorkerFlow::ChangeStage(const StageChanged& event) {
  WorkerEntry* worker = Hear(event.session);
  if (worker == nullptr)
    return;
  const Lease* lease = FindOwn(*worker, event.lease);
  if (lease == nullptr)
    return;
  state_.leases.Extend(lease->ref.lease_id, state_.now + state_.options.lease_timeout);
  const bool is_run_stage = event.stage == Stage::kPrepare || event.stage == Stage::kVerify ||
                            event.stage == Stage::kMeasure;
  if (lease->kind != LeaseKind::kRun || !is_run_stage)
    return;
  // Forward only: a message that was overtaken says nothing new.
  if (event.stage <= state_.evaluations.Find(lease->evaluation_id)->stage)
    return;
  state_.evaluations.SetRunStage(lease->evaluation_id, event.stage);
  evaluations_.Notify(lease->evaluation_id);
}

void WorkerFlow::TakeResult(const LeaseResultReceived& event) {
  WorkerEntry* worker = Hear(event.session);
  if (worker == nullptr)
    return;
  state_.Emit(SendResultAck{event.session, event.lease});
  const Lease* found = FindOwn(*worker, event.lease);
  if (found == nullptr) {
    state_.workers.Finish(worker, event.lease);
    return;
  }
  const Lease lease = *found;
  state_.FinishLease(lease.ref.lease_id);
  if (lease.kind == LeaseKind::kBuild)
    builds_.TakeOutcome(lease, event);
  else if (lease.kind == LeaseKind::kCanary)
    canaries_.TakeOutcome(lease, event);
  else
    evaluations_.TakeOutcome(lease, event);
}

void WorkerFlow::RequestBuild(const BuildRequested& event) {
  const WorkerEntry* worker = Hear(event.session);
  if (worker != nullptr)
    builds_.Request(event, *worker);
}

void WorkerFlow::Drain(const DrainRequested& event) {
  WorkerEntry* worker = state_.workers.Find(event.worker_id);
  if (worker != nullptr && !worker->drain_reason.has_value()) {
    state_.workers.StopServing(worker, state_.now);
    state_.Commit(WorkerDrained{event.worker_id, event.reason});
  }
  if (worker != nullptr && worker->is_connected())
    state_.Emit(SendDrain{*worker->session, *worker->drain_reason});
  state_.Emit(AnswerDrain{event.request, event.worker_id, worker != nullptr});
}

void WorkerFlow::StartDraining(const WorkerDraining& event) {
  WorkerEntry* worker = Hear(event.session);
  if (worker != nullptr && !worker->drain_reason.has_value()) {
    state_.workers.StopServing(worker, state_.now);
    state_.Commit(WorkerDrained{worker->facts.worker_id, state_.CutReason(event.reason)});
  }
}

void WorkerFlow::JudgePublish(const ArtifactPublished& event) {
  const WorkerEntry* worker = state_.workers.FindSession(event.session);
  AnswerPublish answer{event.request, Refusal::kNone, ""};
  if (worker == nullptr) {
    answer.refusal = Refusal::kPermissionDenied;
    answer.message = "not a live worker session";
  } else if (worker->facts.toolchain_digest != event.toolchain_digest) {
    answer.refusal = Refusal::kFailedPrecondition;
    answer.message = "the toolchain is not the worker's";
  }
  state_.Emit(std::move(answer));
}

void WorkerFlow::ExpireLease(LeaseId id) {
  const Lease lease = *state_.leases.Find(id);
  Failure failure;
  if (lease.deadline <= state_.now) {
    failure = {RetryReason::kDeadlinePassed, "the lease's deadline passed"};
  } else if (lease.is_missing) {
    failure = {RetryReason::kLeaseNotHeld, "the worker came back without the lease"};
  } else {
    failure = {RetryReason::kWorkerLost, absl::StrCat("nothing heard of the lease for ",
                                                      state_.options.lease_timeout.count(), " ms")};
  }
  state_.RevokeLease(id);
  FailLease(lease, failure);
}

void WorkerFlow::ExpireWorker(const WorkerId& id) {
  WorkerEntry* worker = state_.workers.Find(id);
  if (worker->is_connected())
    return Close(worker, "nothing was heard of the worker for too long");
  if (worker->leases > 0) {
    state_.workers.deadlines().Set(id, state_.now + state_.options.lease_timeout);
    return;
  }
  state_.Commit(WorkerForgotten{id});
}

std::optional<std::string> WorkerFlow::WhyRefused(const WorkerFacts& facts) {
  if (facts.slots < 1 || facts.slots > state_.options.slots_max)
    return absl::StrCat("slots must be 1 to ", state_.options.slots_max);
  if (facts.kind == WorkerKind::kGpu && (facts.gpu_class.empty() || facts.arch.empty()))
    return "a GPU worker needs a device with a class and an architecture";
  const WorkerEntry* known = state_.workers.Find(facts.worker_id);
  if (known != nullptr && known->facts.kind != facts.kind)
    return "this worker id belongs to a worker of another kind";
  if (known == nullptr && !MakeRoom())
    return absl::StrCat("the coordinator holds its limit of ", state_.options.workers_max,
                        " workers");
  return std::nullopt;
}

// Forgets the worker that was lost the longest ago, if the table is full.
bool WorkerFlow::MakeRoom() {
  const auto& workers = state_.workers.all();
  if (workers.size() < state_.options.workers_max)
    return true;
  const WorkerEntry* oldest = nullptr;
  for (const auto& [id, worker] : workers) {
    if (!worker.is_connected() && worker.leases == 0 &&
        (oldest == nullptr || worker.heard < oldest->heard))
      oldest = &worker;
  }
  if (oldest == nullptr)
    return false;
  state_.Commit(WorkerForgotten{oldest->facts.worker_id});
  return true;
}

void WorkerFlow::Close(WorkerEntry* worker, absl::string_view reason) {
  const SessionId session = *worker->session;
  state_.Emit(CloseSession{session, std::string(reason)});
  Disconnect({session});
}

WorkerEntry* WorkerFlow::Hear(const SessionId& session) {
  WorkerEntry* worker = state_.workers.FindSession(session);
  if (worker == nullptr)
    state_.Emit(CloseSession{session, "the session is not open"});
  else
    state_.workers.Touch(worker, state_.now);
  return worker;
}

const Lease* WorkerFlow::FindOwn(const WorkerEntry& worker, const LeaseRef& ref) {
  const Lease* lease = state_.leases.Find(ref.lease_id);
  const bool is_own =
      lease != nullptr && lease->ref == ref && lease->worker_id == worker.facts.worker_id;
  return is_own ? lease : nullptr;
}

void WorkerFlow::Reclaim(WorkerEntry* worker, const WorkerConnected& event) {
  SendWelcome welcome{event.session, state_.options.heartbeat_interval, {}};
  worker->stopping.clear();
  for (const LeaseRef& ref : event.held_leases) {
    if (FindOwn(*worker, ref) != nullptr) {
      state_.leases.Extend(ref.lease_id, state_.now + state_.options.lease_timeout);
    } else {
      welcome.revoked_leases.push_back(ref.lease_id);
      if (!IsFinished(*worker, ref))
        worker->stopping[ref] = {/*is_seen=*/true, state_.now};
    }
  }
  for (const LeaseId id : state_.leases.OfWorker(worker->facts.worker_id)) {
    const LeaseRef ref = state_.leases.Find(id)->ref;
    if (!Contains(event.held_leases, ref))
      state_.leases.MarkMissing(id, state_.now + settle_time());
  }
  state_.Emit(std::move(welcome));
}

// Frees the slots of leases that the worker no longer names. One that it never named may still be
// on its way to the worker, behind a heartbeat that crossed with it.
void WorkerFlow::SettleStopping(WorkerEntry* worker, const std::vector<LeaseRef>& held) {
  for (auto it = worker->stopping.begin(); it != worker->stopping.end();) {
    const bool is_held = Contains(held, it->first);
    it->second.is_seen |= is_held;
    const bool is_settled = it->second.is_seen || state_.now - it->second.since >= settle_time();
    it = !is_held && is_settled ? worker->stopping.erase(it) : std::next(it);
  }
}

void WorkerFlow::FailLease(const Lease& lease, const Failure& failure) {
  if (lease.kind == LeaseKind::kBuild)
    builds_.FailAttempt(lease, failure.reason, failure.text);
  else if (lease.kind == LeaseKind::kCanary)
    canaries_.FailAttempt(lease, failure.text);
  else
    evaluations_.FailAttempt(lease, failure);
}

}  // namespace pike::coordinator
