#include "coordinator/core/state.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace pike::coordinator {

void State::Apply(const Record& record) {
  std::visit(
      [this](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (std::is_same_v<R, EpochStarted>) {
          epoch = r.epoch;
          evaluations_accepted = r.evaluations_accepted;
        } else if constexpr (std::is_same_v<R, WorkerSeen> || std::is_same_v<R, WorkerForgotten> ||
                             std::is_same_v<R, WorkerDrained> ||
                             std::is_same_v<R, CertificateGranted> ||
                             std::is_same_v<R, CanaryFailed>) {
          workers.Apply(r);
          if constexpr (std::is_same_v<R, WorkerForgotten>)
            verdicts.Forget(r.worker_id);
          if constexpr (std::is_same_v<R, CertificateGranted>)
            verdicts.Vouch(r.worker_id, r.begun_unix_ms);
        } else if constexpr (std::is_same_v<R, BestKept>) {
          bests.Apply(r);
        } else if constexpr (std::is_same_v<R, VerdictKept>) {
          verdicts.Apply(r);
        } else if constexpr (std::is_same_v<R, EvaluationEnded>) {
          ApplyEnd(r);
        } else if constexpr (std::is_same_v<R, VerdictWithdrawn>) {
          ApplyWithdrawal(r);
        } else {
          if constexpr (std::is_same_v<R, EvaluationAccepted>)
            evaluations_accepted = std::max(evaluations_accepted, r.evaluation_id.value);
          evaluations.Apply(r);
        }
      },
      record);
}

void State::ApplyEnd(const EvaluationEnded& record) {
  const Evaluation* evaluation = evaluations.Find(record.evaluation_id);
  PIKE_CHECK(evaluation != nullptr);
  bests.Apply(BestKept{evaluation->accepted.contest, record.gpu_class, record.speedup,
                       record.evaluation_id});
  if (!record.kept_of.value.empty())
    verdicts.Apply(VerdictKept{evaluation->accepted, record.kept_of, record.ended_unix_ms,
                               evaluation->earlier_attempts});
  evaluations.Apply(record);
}

void State::ApplyWithdrawal(const VerdictWithdrawn& record) {
  const VerdictKept* kept = verdicts.Find(record.evaluation_id);
  PIKE_CHECK(kept != nullptr);
  bests.Withdraw(kept->accepted.contest, record.evaluation_id);
  evaluations.Reopen(*kept, record);
  verdicts.Remove(record.evaluation_id);
}

void State::Commit(const Record& record) {
  PIKE_CHECK(is_started);
  Apply(record);
  Emit(AppendRecord{record});
}

int64_t State::WallNow() const {
  return wall_unix_ms + std::chrono::duration_cast<Milliseconds>(now - wall_read_at).count();
}

std::string State::CutReason(absl::string_view reason) const {
  return std::string(reason.substr(0, options.reason_bytes_max));
}

void State::AddLease(const Lease& lease) {
  WorkerEntry* worker = workers.Find(lease.worker_id);
  PIKE_CHECK(worker != nullptr);
  ++worker->leases;
  leases.Add(lease);
}

void State::FinishLease(LeaseId id) {
  const Lease lease = *leases.Find(id);
  leases.Remove(id);
  WorkerEntry* worker = workers.Find(lease.worker_id);
  --worker->leases;
  workers.Finish(worker, lease.ref);
}

void State::RevokeLease(LeaseId id) {
  const Lease lease = *leases.Find(id);
  leases.Remove(id);
  WorkerEntry* worker = workers.Find(lease.worker_id);
  --worker->leases;
  // A worker that is not connected names what it holds when it comes back.
  if (worker->is_connected())
    StopLease(this, worker, lease.ref, lease.is_seen);
}

void StopLease(State* state, WorkerEntry* worker, const LeaseRef& lease, bool is_seen) {
  worker->stopping[lease] = {is_seen, state->now};
  state->Emit(SendCancelLease{*worker->session, lease});
}

}  // namespace pike::coordinator
