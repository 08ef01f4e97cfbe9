#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>

#include "common/base/clock.h"
#include "coordinator/core/best_table.h"
#include "coordinator/core/build_table.h"
#include "coordinator/core/command.h"
#include "coordinator/core/evaluation_table.h"
#include "coordinator/core/lease_table.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/record.h"
#include "coordinator/core/verdict_table.h"
#include "coordinator/core/worker_table.h"

namespace pike::coordinator {

// The tables that the flows work on, and what they have asked for while one event is handled.
// Durable state changes by Apply() only: Commit() in life, and the replay at the start.
struct State {
  explicit State(const CoreOptions& core_options)
      : options(core_options),
        evaluations(options),
        workers(options),
        bests(options.bests_max),
        verdicts(options.verdicts_kept_max) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void Apply(const Record& record);
  // Applies the record and asks for it to be made durable.
  void Commit(const Record& record);
  void Emit(Command command) { commands.push_back(std::move(command)); }

  // The wall clock as of `now`.
  int64_t WallNow() const;
  LeaseId NextLeaseId() { return {epoch, ++leases_given}; }
  std::string CutReason(absl::string_view reason) const;

  // Adds a live lease and takes a slot for it.
  void AddLease(const Lease& lease);
  // Ends a live lease that the worker is done with.
  void FinishLease(LeaseId id);
  // Ends a live lease that the worker may still work on: it is told to stop.
  void RevokeLease(LeaseId id);

  // Parts of Apply that concern several tables.
  void ApplyEnd(const EvaluationEnded& record);
  void ApplyWithdrawal(const VerdictWithdrawn& record);

  const CoreOptions options;
  EvaluationTable evaluations;
  WorkerTable workers;
  LeaseTable leases;
  BuildTable builds;
  BestTable bests;
  VerdictTable verdicts;
  uint32_t epoch = 0;
  uint64_t evaluations_accepted = 0;
  uint64_t leases_given = 0;

  bool is_started = false;
  MonoTime now;
  MonoTime wall_read_at;
  int64_t wall_unix_ms = 0;  // as of wall_read_at
  std::vector<Command> commands;
};

// Tells the worker to stop work that is not, or no longer, a live lease of its own; the slot stays
// taken until it has.
void StopLease(State* state, WorkerEntry* worker, const LeaseRef& lease, bool is_seen);

}  // namespace pike::coordinator
