#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/client_keys.h"
#include "coordinator/core/deadline_index.h"
#include "coordinator/core/fair_queue.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/record.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// One evaluation that has not ended.
struct Evaluation {
  // Durable.
  EvaluationAccepted accepted;
  Stage stage = Stage::kQueuedCompile;  // durable but for the step from kPrepare to kMeasure
  uint32_t attempts = 0;                // leases given in this stage
  std::vector<std::string> earlier_attempts;
  std::optional<CompileStageDone> compiled;
  std::optional<LeaseGranted> lease;  // held now
  int64_t queued_unix_ms = 0;
  Milliseconds queued_compile{0};
  Milliseconds queued_run{0};
  // Of this process only.
  MonoTime queued_since;
  MonoTime unserved_since;      // at the earliest: no connected worker could take it
  WorkerId last_failed_worker;  // another one is preferred

  EvaluationId id() const { return accepted.evaluation_id; }
  bool is_queued() const { return stage == Stage::kQueuedCompile || stage == Stage::kQueuedRun; }
  Need need() const {
    return {accepted.demand, compiled.has_value() ? compiled->target : BuildTarget()};
  }
};

// The evaluations that have not ended, their queues, and the client keys. Durable fields change by
// Apply() only, in replay and in life. A record that does not fit the state is a bug, and checked.
class EvaluationTable {
 public:
  explicit EvaluationTable(const CoreOptions& options);

  void Apply(const EvaluationAccepted& record);
  void Apply(const LeaseGranted& record);
  void Apply(const AttemptFailed& record);
  void Apply(const CompileStageDone& record);
  void Apply(const EvaluationEnded& record);
  void Apply(const EvaluationRestored& record);
  void Apply(const ClientKeyKept& record);

  // An ended one waits for its compile stage again, as if it were new.
  void Reopen(const VerdictKept& kept, const VerdictWithdrawn& record);

  // Null if it has ended or never was. Valid until the next Apply.
  const Evaluation* Find(EvaluationId id) const;
  const std::map<EvaluationId, Evaluation>& all() const { return evaluations_; }
  const ClientKeys& client_keys() const { return client_keys_; }

  FairQueue& queue_compile() { return queue_compile_; }
  FairQueue& queue_run() { return queue_run_; }
  // Place in its queue, from 1, behind all others while it is held back; 0 if it does not wait.
  uint32_t QueuePosition(const Evaluation& evaluation) const;

  // Evaluations in, or waiting for, the compile stage; and the run stage.
  size_t compile_stage_count() const { return evaluations_.size() - run_stage_count_; }
  size_t run_stage_count() const { return run_stage_count_; }
  // In their queues, held back or not.
  size_t queued_compile_count() const { return queue_compile_.size() + held_compile_.size(); }
  size_t queued_run_count() const { return queue_run_.size() + held_run_.size(); }
  size_t CountOf(const Principal& principal) const;

  // The step within a run lease. REQUIRES: the evaluation holds one.
  void SetRunStage(EvaluationId id, Stage stage);
  // A queued evaluation waits since `since`.
  void StartQueueClock(EvaluationId id, MonoTime since);
  // Its queue deadline comes its queue_timeout after `since`.
  void SetUnservedSince(EvaluationId id, MonoTime since);
  // Takes a queued evaluation out of line until a time. REQUIRES: it is in line.
  void HoldBack(EvaluationId id, MonoTime until);
  bool IsHeldBack(EvaluationId id) const {
    return held_compile_.Contains(id) || held_run_.Contains(id);
  }
  // Puts those whose time has come back in line, and returns them.
  std::vector<EvaluationId> ReleaseDue(MonoTime now);
  std::optional<MonoTime> NextRelease() const;
  DeadlineIndex<EvaluationId>& queue_deadlines() { return queue_deadlines_; }
  const DeadlineIndex<EvaluationId>& queue_deadlines() const { return queue_deadlines_; }

  void AppendSnapshot(std::vector<Record>* records) const;

 private:
  Evaluation& Get(EvaluationId id);
  Evaluation& Add(const EvaluationAccepted& record);
  void Enqueue(Evaluation* evaluation, Stage stage, int64_t at_unix_ms);
  void Dequeue(const Evaluation& evaluation);
  FairQueue& QueueOf(const Evaluation& evaluation);
  DeadlineIndex<EvaluationId>& HeldOf(const Evaluation& evaluation);

  std::map<EvaluationId, Evaluation> evaluations_;
  std::map<Principal, size_t> count_by_principal_;
  ClientKeys client_keys_;
  // Each queued evaluation is in the queue of its stage, or held back from it.
  FairQueue queue_compile_;
  FairQueue queue_run_;
  DeadlineIndex<EvaluationId> held_compile_;
  DeadlineIndex<EvaluationId> held_run_;
  size_t run_stage_count_ = 0;
  DeadlineIndex<EvaluationId> queue_deadlines_;
};

}  // namespace pike::coordinator
