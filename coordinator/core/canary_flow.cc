#include "coordinator/core/canary_flow.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "common/base/check.h"

namespace pike::coordinator {
namespace {

// No canary is the best of anything: each is measured once.
constexpr double kNoConfirmation = 1e9;
// How often in a round a canary may look misjudged by a host that was busy elsewhere.
constexpr uint32_t kDoubtsMax = 1;

// From a short first round to the whole one.
constexpr std::chrono::seconds kWholeRoundAfter{60};
// A round of a worker that works waits so long for a queue without runs.
constexpr std::chrono::minutes kGivesWayMax{10};

struct Complaint {
  std::string text;  // empty: judged as expected
  // Noise of the host can do this: a time, or two clocks that disagree. Never a right answer for a
  // wrong one.
  bool is_doubtful = false;
};

Complaint Judge(const CanarySpec& canary, const VerdictReached& verdict) {
  if (verdict.kind != canary.expected) {
    const bool is_doubtful =
        canary.expected == VerdictKind::kValid && verdict.kind == VerdictKind::kSuspect;
    return {absl::StrCat(Name(verdict.kind), " instead of ", Name(canary.expected)), is_doubtful};
  }
  const bool is_slow = canary.speedup_min > 0 && verdict.speedup < canary.speedup_min;
  const bool is_fast = canary.speedup_max > 0 && verdict.speedup > canary.speedup_max;
  if (!is_slow && !is_fast)
    return {};
  return {
      absl::StrFormat("a speedup of %.3g, %s than %.3g", verdict.speedup, is_slow ? "less" : "more",
                      is_slow ? canary.speedup_min : canary.speedup_max),
      true};
}

}  // namespace

void CanaryFlow::Connect(const WorkerId& id) {
  WorkerEntry* worker = state_.workers.Find(id);
  if (state_.options.canaries.empty() || worker->facts.kind != WorkerKind::kGpu)
    return;
  worker->awaits_certificate = worker->certificate.empty();
  if (worker->round.has_value())
    return;
  const Milliseconds since(state_.WallNow() - worker->certified_unix_ms);
  // A wall clock that was set back makes it wait no longer than one interval.
  const Milliseconds left = worker->awaits_certificate
                                ? Milliseconds(0)
                                : std::clamp(state_.options.canary_interval - since,
                                             Milliseconds(0), state_.options.canary_interval);
  if (left.count() == 0)
    return Begin(worker);
  state_.workers.canaries_due().Set(id, state_.now + left);
}

void CanaryFlow::TakeDue(const WorkerId& id) {
  WorkerEntry* worker = state_.workers.Find(id);
  // One that comes back is looked at then. In a round a try may follow, which Dispatch sees.
  if (worker->is_taking_work() && !worker->round.has_value())
    Begin(worker);
}

void CanaryFlow::Dispatch() {
  if (state_.options.canaries.empty())
    return;
  for (const auto& [id, known] : state_.workers.all()) {
    if (known.round.has_value() && !known.round->lease.has_value() && known.idle_slots() > 0 &&
        !state_.workers.canaries_due().Contains(id) && !GivesWay(*known.round))
      Grant(state_.workers.Find(id));
  }
}

void CanaryFlow::TakeOutcome(const Lease& lease, const LeaseResultReceived& event) {
  WorkerEntry* worker = state_.workers.Find(lease.worker_id);
  if (const auto* failed = std::get_if<InfraFailed>(&event.outcome))
    return FailAttempt(lease, failed->reason);
  const auto* verdict = std::get_if<VerdictReached>(&event.outcome);
  if (verdict == nullptr || verdict->kind == VerdictKind::kInfraError ||
      verdict->kind == VerdictKind::kCancelled)
    return FailAttempt(lease, "the outcome does not fit the lease");
  CanaryRound& round = *worker->round;
  round.lease.reset();
  const Complaint complaint = Judge(state_.options.canaries.at(round.next), *verdict);
  if (!complaint.text.empty()) {
    if (complaint.is_doubtful && ++round.doubts <= kDoubtsMax)
      return TryAgain(worker, complaint.text, /*is_misjudged=*/true);
    return Condemn(worker, complaint.text, /*is_misjudged=*/true);
  }
  round.attempts = 0;
  round.next = NextOf(round, round.next + 1);
  if (round.next == state_.options.canaries.size())
    Pass(worker);
}

void CanaryFlow::FailAttempt(const Lease& lease, absl::string_view reason) {
  WorkerEntry* worker = state_.workers.Find(lease.worker_id);
  PIKE_CHECK(worker->round.has_value() && worker->round->lease == lease.ref.lease_id);
  worker->round->lease.reset();
  // One that went away is tried anew when it comes back.
  if (!worker->is_connected()) {
    worker->round.reset();
    return;
  }
  TryAgain(worker, state_.CutReason(reason), /*is_misjudged=*/false);
}

void CanaryFlow::Begin(WorkerEntry* worker) {
  worker->round.emplace();
  worker->round->started_unix_ms = state_.WallNow();
  worker->round->gives_way_until = state_.now + kGivesWayMax;
  worker->round->is_first = worker->awaits_certificate;
  worker->round->next = NextOf(*worker->round, 0);
}

bool CanaryFlow::GivesWay(const CanaryRound& round) const {
  return !round.is_first && state_.evaluations.queued_run_count() > 0 &&
         state_.now < round.gives_way_until;
}

size_t CanaryFlow::NextOf(const CanaryRound& round, size_t index) const {
  const std::vector<CanarySpec>& canaries = state_.options.canaries;
  while (index < canaries.size() && round.is_first && !canaries[index].is_in_first_round)
    ++index;
  return index;
}

void CanaryFlow::Grant(WorkerEntry* worker) {
  CanaryRound& round = *worker->round;
  const CanarySpec& canary = state_.options.canaries.at(round.next);
  const Milliseconds told = RunTimeout(canary.times) + state_.options.lease_slack;
  Lease lease;
  lease.ref = {state_.NextLeaseId(), ++round.attempts};
  lease.kind = LeaseKind::kCanary;
  lease.worker_id = worker->facts.worker_id;
  lease.expires = state_.now + state_.options.lease_timeout;
  lease.deadline = state_.now + told + state_.options.deadline_margin;
  round.lease = lease.ref.lease_id;
  state_.AddLease(lease);
  state_.Emit(
      SendLease{*worker->session, lease.ref, std::nullopt, told, worker->facts.arch,
                RunGrant{canary.payload, "", worker->facts.runtime_digest, kNoConfirmation}});
}

void CanaryFlow::Pass(WorkerEntry* worker) {
  const WorkerId& id = worker->facts.worker_id;
  const int64_t now_ms = state_.WallNow();
  const uint32_t number = worker->rounds + 1;
  state_.Commit(CertificateGranted{id, absl::StrCat(id.value, "/", number, "/", now_ms), number,
                                   now_ms, worker->round->started_unix_ms});
  const std::vector<CanarySpec>& canaries = state_.options.canaries;
  const bool is_short = worker->round->is_first &&
                        std::any_of(canaries.begin(), canaries.end(), [](const CanarySpec& canary) {
                          return !canary.is_in_first_round;
                        });
  worker->round.reset();
  worker->awaits_certificate = false;
  const Milliseconds left =
      is_short ? std::min<Milliseconds>(kWholeRoundAfter, state_.options.canary_interval)
               : state_.options.canary_interval;
  state_.workers.canaries_due().Set(id, state_.now + left);
  state_.Emit(ReportCanaries{id, CanaryOutcome::kPassed, worker->certificate, 0});
}

void CanaryFlow::TryAgain(WorkerEntry* worker, const std::string& why, bool is_misjudged) {
  const uint32_t attempts = worker->round->attempts;
  if (attempts >= state_.options.attempts_max)
    return Condemn(worker, why, is_misjudged);
  const Milliseconds delay = RetryDelay(state_.options, attempts);
  if (delay.count() > 0)
    state_.workers.canaries_due().Set(worker->facts.worker_id, state_.now + delay);
}

void CanaryFlow::Condemn(WorkerEntry* worker, const std::string& why, bool is_misjudged) {
  const WorkerId id = worker->facts.worker_id;
  const std::string line = state_.CutReason(
      absl::StrCat("canary '", state_.options.canaries.at(worker->round->next).name,
                   "': ", is_misjudged ? "" : "no verdict: ", why));
  worker->round.reset();
  state_.workers.StopServing(worker, state_.now);
  state_.Commit(CanaryFailed{id, line});
  // It is not told to leave: what would start in its place is no better, and people should see it.
  ReportCanaries report{id, is_misjudged ? CanaryOutcome::kMisjudged : CanaryOutcome::kUndecided,
                        line, 0};
  if (is_misjudged) {
    for (const LeaseId lease_id : state_.leases.OfWorker(id)) {
      const Lease lease = *state_.leases.Find(lease_id);
      if (lease.kind != LeaseKind::kRun)
        continue;
      state_.RevokeLease(lease_id);
      evaluations_.FailAttempt(lease, {RetryReason::kWorkerCondemned, line});
    }
    for (const EvaluationId evaluation : state_.verdicts.OfWorker(id)) {
      evaluations_.Withdraw(evaluation, line);
      ++report.withdrawn;
    }
  }
  state_.Emit(std::move(report));
}

}  // namespace pike::coordinator
