#include "coordinator/core/evaluation_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {

EvaluationTable::EvaluationTable(const CoreOptions& options)
    : client_keys_(options.client_keys_max) {}

void EvaluationTable::Apply(const EvaluationAccepted& record) {
  client_keys_.Add(
      {record.principal, record.client_key, record.request_digest, record.evaluation_id});
  Enqueue(&Add(record), Stage::kQueuedCompile, record.submitted_unix_ms);
}

void EvaluationTable::Apply(const LeaseGranted& record) {
  Evaluation& evaluation = Get(record.evaluation_id);
  const bool is_compile = record.kind == LeaseKind::kCompile;
  PIKE_CHECK(evaluation.stage == (is_compile ? Stage::kQueuedCompile : Stage::kQueuedRun));
  PIKE_CHECK(record.lease.attempt == evaluation.attempts + 1);
  Dequeue(evaluation);
  evaluation.stage = is_compile ? Stage::kCompile : Stage::kPrepare;
  evaluation.attempts = record.lease.attempt;
  evaluation.lease = record;
  (is_compile ? evaluation.queued_compile : evaluation.queued_run) += record.queued;
}

void EvaluationTable::Apply(const AttemptFailed& record) {
  Evaluation& evaluation = Get(record.evaluation_id);
  PIKE_CHECK(evaluation.lease.has_value() && evaluation.lease->lease == record.lease);
  const bool is_compile = evaluation.lease->kind == LeaseKind::kCompile;
  evaluation.earlier_attempts.push_back(record.reason);
  evaluation.last_failed_worker = evaluation.lease->worker_id;
  evaluation.lease.reset();
  Enqueue(&evaluation, is_compile ? Stage::kQueuedCompile : Stage::kQueuedRun, record.at_unix_ms);
}

void EvaluationTable::Apply(const CompileStageDone& record) {
  Evaluation& evaluation = Get(record.evaluation_id);
  PIKE_CHECK(evaluation.stage == Stage::kCompile && evaluation.lease->lease == record.lease);
  evaluation.lease.reset();
  evaluation.compiled = record;
  evaluation.attempts = 0;
  evaluation.last_failed_worker = {};
  ++run_stage_count_;
  Enqueue(&evaluation, Stage::kQueuedRun, record.at_unix_ms);
}

void EvaluationTable::Apply(const EvaluationEnded& record) {
  const Evaluation& evaluation = Get(record.evaluation_id);
  if (evaluation.is_queued())
    Dequeue(evaluation);
  if (evaluation.compiled.has_value())
    --run_stage_count_;
  const auto count = count_by_principal_.find(evaluation.accepted.principal);
  if (--count->second == 0)
    count_by_principal_.erase(count);
  client_keys_.MarkEnded(evaluation.accepted.principal, evaluation.accepted.client_key);
  evaluations_.erase(record.evaluation_id);
}

void EvaluationTable::Apply(const EvaluationRestored& record) {
  const EvaluationAccepted& accepted = record.accepted;
  client_keys_.Add(
      {accepted.principal, accepted.client_key, accepted.request_digest, accepted.evaluation_id});
  Evaluation& evaluation = Add(accepted);
  evaluation.attempts = record.attempts;
  evaluation.earlier_attempts = record.earlier_attempts;
  evaluation.compiled = record.compiled;
  evaluation.queued_compile = record.queued_compile;
  evaluation.queued_run = record.queued_run;
  if (record.compiled.has_value())
    ++run_stage_count_;
  Enqueue(&evaluation, record.stage, record.queued_unix_ms);
}

void EvaluationTable::Apply(const ClientKeyKept& record) {
  client_keys_.Add(record);
  client_keys_.MarkEnded(record.principal, record.client_key);
}

void EvaluationTable::Reopen(const VerdictKept& kept, const VerdictWithdrawn& record) {
  EvaluationAccepted accepted = kept.accepted;
  const bool has_key = client_keys_.MarkLive(
      {accepted.principal, accepted.client_key, accepted.request_digest, accepted.evaluation_id});
  if (!has_key)
    accepted.client_key.clear();  // it was forgotten and means another evaluation now
  Evaluation& evaluation = Add(accepted);
  evaluation.earlier_attempts = kept.earlier_attempts;
  evaluation.earlier_attempts.push_back(record.reason);
  Enqueue(&evaluation, Stage::kQueuedCompile, record.at_unix_ms);
}

const Evaluation* EvaluationTable::Find(EvaluationId id) const {
  const auto it = evaluations_.find(id);
  return it == evaluations_.end() ? nullptr : &it->second;
}

uint32_t EvaluationTable::QueuePosition(const Evaluation& evaluation) const {
  if (!evaluation.is_queued())
    return 0;
  const FairQueue& queue = evaluation.stage == Stage::kQueuedCompile ? queue_compile_ : queue_run_;
  if (IsHeldBack(evaluation.id()))
    return static_cast<uint32_t>(queue.size()) + 1;
  return queue.Position(evaluation.accepted.principal, evaluation.id());
}

size_t EvaluationTable::CountOf(const Principal& principal) const {
  const auto it = count_by_principal_.find(principal);
  return it == count_by_principal_.end() ? 0 : it->second;
}

void EvaluationTable::SetRunStage(EvaluationId id, Stage stage) {
  Evaluation& evaluation = Get(id);
  PIKE_CHECK(evaluation.lease.has_value() && evaluation.lease->kind == LeaseKind::kRun);
  evaluation.stage = stage;
}

void EvaluationTable::StartQueueClock(EvaluationId id, MonoTime since) {
  Evaluation& evaluation = Get(id);
  PIKE_CHECK(evaluation.is_queued());
  evaluation.queued_since = since;
  SetUnservedSince(id, since);
}

void EvaluationTable::SetUnservedSince(EvaluationId id, MonoTime since) {
  Evaluation& evaluation = Get(id);
  PIKE_CHECK(evaluation.is_queued());
  evaluation.unserved_since = since;
  queue_deadlines_.Set(id, since + evaluation.accepted.times.queue_timeout);
}

void EvaluationTable::HoldBack(EvaluationId id, MonoTime until) {
  const Evaluation& evaluation = Get(id);
  PIKE_CHECK(!IsHeldBack(id));
  QueueOf(evaluation).Erase(evaluation.accepted.principal, evaluation.need(), id);
  HeldOf(evaluation).Set(id, until);
}

std::vector<EvaluationId> EvaluationTable::ReleaseDue(MonoTime now) {
  std::vector<EvaluationId> released = held_compile_.TakeDue(now);
  const std::vector<EvaluationId> runs = held_run_.TakeDue(now);
  released.insert(released.end(), runs.begin(), runs.end());
  for (const EvaluationId id : released) {
    const Evaluation& evaluation = Get(id);
    QueueOf(evaluation).Insert(evaluation.accepted.principal, evaluation.need(), id);
  }
  return released;
}

std::optional<MonoTime> EvaluationTable::NextRelease() const {
  const auto compile = held_compile_.Next();
  const auto run = held_run_.Next();
  return compile.has_value() && run.has_value() ? std::min(compile, run)
                                                : (compile.has_value() ? compile : run);
}

void EvaluationTable::AppendSnapshot(std::vector<Record>* records) const {
  for (const ClientKeyKept& kept : client_keys_.Ended())
    records->push_back(kept);
  for (const auto& [id, evaluation] : evaluations_) {
    EvaluationRestored restored;
    restored.accepted = evaluation.accepted;
    restored.stage = evaluation.compiled.has_value() ? Stage::kQueuedRun : Stage::kQueuedCompile;
    restored.attempts = evaluation.attempts - (evaluation.lease.has_value() ? 1 : 0);
    restored.earlier_attempts = evaluation.earlier_attempts;
    restored.compiled = evaluation.compiled;
    restored.queued_unix_ms = evaluation.queued_unix_ms;
    restored.queued_compile = evaluation.queued_compile;
    restored.queued_run = evaluation.queued_run;
    if (evaluation.lease.has_value()) {
      // Applying the lease adds its wait again.
      const bool is_compile = evaluation.lease->kind == LeaseKind::kCompile;
      (is_compile ? restored.queued_compile : restored.queued_run) -= evaluation.lease->queued;
    }
    records->push_back(std::move(restored));
    if (evaluation.lease.has_value())
      records->push_back(*evaluation.lease);
  }
}

Evaluation& EvaluationTable::Get(EvaluationId id) {
  const auto it = evaluations_.find(id);
  PIKE_CHECK(it != evaluations_.end());
  return it->second;
}

Evaluation& EvaluationTable::Add(const EvaluationAccepted& record) {
  const auto [it, is_new] = evaluations_.try_emplace(record.evaluation_id);
  PIKE_CHECK(is_new);
  it->second.accepted = record;
  ++count_by_principal_[record.principal];
  return it->second;
}

void EvaluationTable::Enqueue(Evaluation* evaluation, Stage stage, int64_t at_unix_ms) {
  evaluation->stage = stage;
  evaluation->queued_unix_ms = at_unix_ms;
  QueueOf(*evaluation).Insert(evaluation->accepted.principal, evaluation->need(), evaluation->id());
}

void EvaluationTable::Dequeue(const Evaluation& evaluation) {
  if (IsHeldBack(evaluation.id()))
    HeldOf(evaluation).Clear(evaluation.id());
  else
    QueueOf(evaluation).Erase(evaluation.accepted.principal, evaluation.need(), evaluation.id());
  queue_deadlines_.Clear(evaluation.id());
}

FairQueue& EvaluationTable::QueueOf(const Evaluation& evaluation) {
  PIKE_CHECK(evaluation.is_queued());
  return evaluation.stage == Stage::kQueuedCompile ? queue_compile_ : queue_run_;
}

DeadlineIndex<EvaluationId>& EvaluationTable::HeldOf(const Evaluation& evaluation) {
  PIKE_CHECK(evaluation.is_queued());
  return evaluation.stage == Stage::kQueuedCompile ? held_compile_ : held_run_;
}

}  // namespace pike::coordinator
