#include "coordinator/core/core.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "coordinator/core/build_flow.h"
#include "coordinator/core/canary_flow.h"
#include "coordinator/core/evaluation_flow.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/core/state.h"
#include "coordinator/core/worker_flow.h"

namespace pike::coordinator {

struct Core::Parts {
  explicit Parts(const CoreOptions& options)
      : state(options),
        build_flow(&state),
        evaluation_flow(&state, &build_flow),
        canary_flow(&state, &evaluation_flow),
        worker_flow(&state, &evaluation_flow, &build_flow, &canary_flow),
        scheduler(&state, &evaluation_flow) {}

  void Take(const CoordinatorStarted& event);
  void Take(const TimePassed& event);
  void Take(const EvaluationSubmitted& event) { evaluation_flow.Submit(event); }
  void Take(const CancelRequested& event) { evaluation_flow.Cancel(event); }
  void Take(const WorkerConnected& event) { worker_flow.Connect(event); }
  void Take(const WorkerDisconnected& event) { worker_flow.Disconnect(event); }
  void Take(const HeartbeatReceived& event) { worker_flow.Heartbeat(event); }
  void Take(const StageChanged& event) { worker_flow.ChangeStage(event); }
  void Take(const LeaseResultReceived& event) { worker_flow.TakeResult(event); }
  void Take(const BuildRequested& event) { worker_flow.RequestBuild(event); }
  void Take(const DrainRequested& event) { worker_flow.Drain(event); }
  void Take(const WorkerDraining& event) { worker_flow.StartDraining(event); }
  void Take(const ArtifactPublished& event) { worker_flow.JudgePublish(event); }

  EvaluationView View(const Evaluation& evaluation) const;

  State state;
  BuildFlow build_flow;
  EvaluationFlow evaluation_flow;
  CanaryFlow canary_flow;
  WorkerFlow worker_flow;
  Scheduler scheduler;
};

// The longest wait that is believed of a wall clock, which may have been set since.
constexpr std::chrono::hours kWaitMax(24 * 30);

// What the log does not hold starts anew: leases in it get a grace to be claimed, and queue
// deadlines their full time, since nobody could connect meanwhile. Waits go on by the wall clock.
void Core::Parts::Take(const CoordinatorStarted& event) {
  PIKE_CHECK(!state.is_started);
  state.is_started = true;
  state.wall_read_at = state.now;
  state.wall_unix_ms = event.wall_unix_ms;
  state.Commit(EpochStarted{state.epoch + 1, state.evaluations_accepted});
  state.workers.StartClocks(state.now);
  for (const auto& [id, evaluation] : state.evaluations.all()) {
    const PolicyTimes& times = evaluation.accepted.times;
    if (evaluation.lease.has_value()) {
      const LeaseGranted& granted = *evaluation.lease;
      const Milliseconds told =
          granted.kind == LeaseKind::kCompile ? times.compile_timeout : RunTimeout(times);
      Lease lease;
      lease.ref = granted.lease;
      lease.kind = granted.kind;
      lease.worker_id = granted.worker_id;
      lease.evaluation_id = id;
      lease.expires = state.now + state.options.lease_timeout;
      lease.deadline = state.now + told + state.options.lease_slack + state.options.deadline_margin;
      state.AddLease(lease);
    } else {
      const Milliseconds waited(std::clamp<int64_t>(event.wall_unix_ms - evaluation.queued_unix_ms,
                                                    0, Milliseconds(kWaitMax).count()));
      state.evaluations.StartQueueClock(id, state.now - waited);
      state.evaluations.SetUnservedSince(id, state.now);
    }
    evaluation_flow.Notify(id);
  }
}

// One pass may end what a later one finds due, so that each looks before it acts.
void Core::Parts::Take(const TimePassed& event) {
  state.wall_read_at = state.now;
  state.wall_unix_ms = event.wall_unix_ms;
  for (const LeaseId id : state.leases.deadlines().TakeDue(state.now)) {
    if (state.leases.Find(id) != nullptr)
      worker_flow.ExpireLease(id);
  }
  for (const EvaluationId id : state.evaluations.ReleaseDue(state.now))
    evaluation_flow.Notify(id);
  state.builds.ReleaseDue(state.now);
  for (const EvaluationId id : state.evaluations.queue_deadlines().TakeDue(state.now))
    evaluation_flow.TakeQueueDeadline(id);
  for (const uint64_t number : state.builds.deadlines().TakeDue(state.now)) {
    if (state.builds.Find(number) != nullptr)
      build_flow.EndUnserved(number);
  }
  for (const WorkerId& id : state.workers.deadlines().TakeDue(state.now))
    worker_flow.ExpireWorker(id);
  for (const WorkerId& id : state.workers.canaries_due().TakeDue(state.now))
    canary_flow.TakeDue(id);
}

EvaluationView Core::Parts::View(const Evaluation& evaluation) const {
  const EvaluationAccepted& accepted = evaluation.accepted;
  return {evaluation.id(),
          accepted.principal,
          accepted.client_key,
          accepted.payload,
          evaluation.stage,
          state.evaluations.QueuePosition(evaluation),
          evaluation.attempts,
          accepted.submitted_unix_ms,
          state.evaluations.IsHeldBack(evaluation.id())};
}

Core::Core(const CoreOptions& options) {
  PIKE_CHECK(Problems(options).empty());
  parts_ = std::make_unique<Parts>(options);
}

Core::~Core() = default;

void Core::Apply(const Record& record) {
  PIKE_CHECK(!parts_->state.is_started);
  parts_->state.Apply(record);
}

std::vector<Command> Core::Handle(const Event& event, MonoTime now) {
  State& state = parts_->state;
  PIKE_CHECK(state.is_started == !std::holds_alternative<CoordinatorStarted>(event));
  PIKE_CHECK(!state.is_started || now >= state.now);
  state.now = now;
  std::visit([this](const auto& e) { parts_->Take(e); }, event);
  parts_->canary_flow.Dispatch();
  parts_->scheduler.Dispatch();
  return std::exchange(state.commands, {});
}

std::optional<MonoTime> Core::NextDeadline() const {
  const State& state = parts_->state;
  std::optional<MonoTime> next;
  for (const std::optional<MonoTime> candidate :
       {state.leases.deadlines().Next(), state.evaluations.queue_deadlines().Next(),
        state.evaluations.NextRelease(), state.builds.deadlines().Next(),
        state.builds.NextRelease(), state.workers.deadlines().Next(),
        state.workers.canaries_due().Next()}) {
    if (candidate.has_value() && (!next.has_value() || *candidate < *next))
      next = candidate;
  }
  return next;
}

std::vector<Record> Core::Snapshot() const {
  const State& state = parts_->state;
  std::vector<Record> records;
  records.push_back(EpochStarted{state.epoch, state.evaluations_accepted});
  state.workers.AppendSnapshot(&records);
  state.verdicts.AppendSnapshot(&records);
  state.evaluations.AppendSnapshot(&records);
  state.bests.AppendSnapshot(&records);
  return records;
}

std::optional<EvaluationView> Core::FindEvaluation(EvaluationId id) const {
  const Evaluation* evaluation = parts_->state.evaluations.Find(id);
  if (evaluation == nullptr)
    return std::nullopt;
  return parts_->View(*evaluation);
}

std::vector<EvaluationView> Core::ActiveEvaluations() const {
  std::vector<EvaluationView> views;
  for (const auto& [id, evaluation] : parts_->state.evaluations.all())
    views.push_back(parts_->View(evaluation));
  return views;
}

std::vector<WorkerView> Core::Workers() const {
  const State& state = parts_->state;
  std::vector<WorkerView> views;
  for (const auto& [id, worker] : state.workers.all()) {
    WorkerView view;
    view.worker = worker.facts;
    if (worker.is_connected())
      view.state = worker.drain_reason.has_value() ? WorkerState::kDraining : WorkerState::kReady;
    view.leases = worker.leases;
    view.last_seen_unix_ms =
        state.WallNow() -
        std::chrono::duration_cast<Milliseconds>(state.now - worker.heard).count();
    view.certificate = worker.certificate;
    view.certified_unix_ms = worker.certified_unix_ms;
    view.canary_failure = worker.canary_failure;
    views.push_back(std::move(view));
  }
  return views;
}

bool Core::IsLiveSession(const SessionId& session) const {
  return parts_->state.workers.FindSession(session) != nullptr;
}

LoadView Core::Load() const {
  const State& state = parts_->state;
  const auto count = [&](LeaseKind kind) {
    return static_cast<uint32_t>(state.leases.Count(kind));
  };
  LoadView load;
  load.queued_compile = static_cast<uint32_t>(state.evaluations.queued_compile_count());
  load.queued_run = static_cast<uint32_t>(state.evaluations.queued_run_count());
  load.leases_compile = count(LeaseKind::kCompile);
  load.leases_run = count(LeaseKind::kRun);
  load.leases_build = count(LeaseKind::kBuild);
  load.leases_canary = count(LeaseKind::kCanary);
  load.builds_waiting = static_cast<uint32_t>(state.builds.waiting_count());
  load.active_evaluations = static_cast<uint32_t>(state.evaluations.all().size());
  load.ended_evaluations = state.evaluations_accepted - load.active_evaluations;
  return load;
}

}  // namespace pike::coordinator
