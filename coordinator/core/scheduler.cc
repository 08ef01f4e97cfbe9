#include "coordinator/core/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {
namespace {

struct CompilePlacement {
  BuildTarget target;
  const WorkerEntry* worker = nullptr;
};

// The best target that a compile worker is free for. No worker if there is none.
CompilePlacement PlaceCompile(const Workers& workers, const Demand& demand, const WorkerId& avoid) {
  for (const BuildTarget& target : CompileTargets(workers, demand)) {
    const WorkerEntry* worker = PickCompileWorker(workers, target.runtime_digest, avoid);
    if (worker != nullptr)
      return {target, worker};
  }
  return {};
}

// Remembers the answer for each need: queues hold many evaluations of few needs.
template <typename Decide>
auto Remember(std::map<Need, bool>* answers, Decide decide) {
  return [answers, decide](const Need& need) {
    const auto [it, is_new] = answers->try_emplace(need, false);
    if (is_new)
      it->second = decide(need);
    return it->second;
  };
}

}  // namespace

void Scheduler::Dispatch() {
  DispatchBuilds();
  DispatchRuns();
  DispatchCompiles();
}

void Scheduler::DispatchBuilds() {
  if (state_.builds.waiting().empty() || !HasFreeSlot(WorkerKind::kCompile))
    return;
  const std::vector<uint64_t> waiting(state_.builds.waiting().begin(),
                                      state_.builds.waiting().end());
  for (const uint64_t number : waiting) {
    Build* build = state_.builds.Find(number);
    const WorkerEntry* worker =
        PickCompileWorker(state_.workers.all(), build->target.runtime_digest, WorkerId());
    if (worker != nullptr)
      GrantBuild(build, *worker);
  }
}

void Scheduler::DispatchRuns() {
  const Workers& workers = state_.workers.all();
  FairQueue& queue = state_.evaluations.queue_run();
  while (queue.size() > 0 && HasFreeSlot(WorkerKind::kGpu)) {
    std::map<Need, bool> answers;
    const auto id = queue.Next(Remember(&answers, [&](const Need& need) {
      return PickRunWorker(workers, need.demand, need.target, WorkerId()) != nullptr;
    }));
    if (!id.has_value())
      return;
    const Evaluation& evaluation = *state_.evaluations.Find(*id);
    const Need need = evaluation.need();
    const WorkerEntry* worker =
        PickRunWorker(workers, need.demand, need.target, evaluation.last_failed_worker);
    queue.EndTurn(evaluation.accepted.principal);
    GrantEvaluation(evaluation, LeaseKind::kRun, need.target, *worker);
  }
}

void Scheduler::DispatchCompiles() {
  const Workers& workers = state_.workers.all();
  FairQueue& queue = state_.evaluations.queue_compile();
  const auto has_room = [&] {
    return state_.evaluations.run_stage_count() + state_.leases.Count(LeaseKind::kCompile) <
           state_.options.queue_run_max;
  };
  while (queue.size() > 0 && has_room() && HasFreeSlot(WorkerKind::kCompile)) {
    std::map<Need, bool> answers;
    const auto id = queue.Next(Remember(&answers, [&](const Need& need) {
      return PlaceCompile(workers, need.demand, WorkerId()).worker != nullptr;
    }));
    if (!id.has_value())
      return;
    const Evaluation& evaluation = *state_.evaluations.Find(*id);
    const CompilePlacement placement =
        PlaceCompile(workers, evaluation.accepted.demand, evaluation.last_failed_worker);
    queue.EndTurn(evaluation.accepted.principal);
    GrantEvaluation(evaluation, LeaseKind::kCompile, placement.target, *placement.worker);
  }
}

void Scheduler::GrantBuild(Build* build, const WorkerEntry& worker) {
  ++build->attempts;
  const Milliseconds told = build->timeout + state_.options.lease_slack;
  Lease lease;
  lease.ref = {state_.NextLeaseId(), build->attempts};
  lease.kind = LeaseKind::kBuild;
  lease.worker_id = worker.facts.worker_id;
  lease.build_number = build->number;
  lease.expires = state_.now + state_.options.lease_timeout;
  lease.deadline = state_.now + told + state_.options.deadline_margin;
  state_.builds.SetLease(build->number, lease.ref.lease_id);
  state_.AddLease(lease);
  state_.Emit(SendLease{*worker.session, lease.ref, std::nullopt, told, build->target.arch,
                        BuildGrant{build->request_sha256, build->timeout}});
}

void Scheduler::GrantEvaluation(const Evaluation& evaluation, LeaseKind kind,
                                const BuildTarget& target, const WorkerEntry& worker) {
  const EvaluationId id = evaluation.id();
  const Stage stage = evaluation.stage;
  const PolicyTimes& times = evaluation.accepted.times;
  const Milliseconds told =
      state_.options.lease_slack +
      (kind == LeaseKind::kCompile ? times.compile_timeout : RunTimeout(times));
  const auto waited =
      std::chrono::duration_cast<Milliseconds>(state_.now - evaluation.queued_since);
  Lease lease;
  lease.ref = {state_.NextLeaseId(), evaluation.attempts + 1};
  lease.kind = kind;
  lease.worker_id = worker.facts.worker_id;
  lease.evaluation_id = id;
  lease.expires = state_.now + state_.options.lease_timeout;
  lease.deadline = state_.now + told + state_.options.deadline_margin;

  state_.Commit(
      LeaseGranted{lease.ref, id, kind, lease.worker_id, target, state_.WallNow(), waited});
  state_.AddLease(lease);
  SendLease send{*worker.session, lease.ref, id, told, target.arch, {}};
  if (kind == LeaseKind::kCompile) {
    send.work = CompileGrant{evaluation.accepted.payload};
  } else {
    send.work = RunGrant{
        evaluation.accepted.payload, evaluation.compiled->builds_payload, target.runtime_digest,
        state_.bests.SpeedupOf(evaluation.accepted.contest, worker.facts.gpu_class)};
  }
  state_.Emit(std::move(send));
  state_.Emit(ObserveQueueWait{stage, waited});
  evaluations_.Notify(id);
}

bool Scheduler::HasFreeSlot(WorkerKind kind) const {
  const Workers& workers = state_.workers.all();
  return std::any_of(workers.begin(), workers.end(), [kind](const auto& worker) {
    return worker.second.facts.kind == kind && worker.second.free_slots() > 0;
  });
}

}  // namespace pike::coordinator
