#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/command.h"
#include "coordinator/core/event.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/record.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// A live evaluation as people see it.
struct EvaluationView {
  EvaluationId evaluation_id;
  Principal principal;
  std::string client_key;
  std::string payload;
  Stage stage = Stage::kQueuedCompile;
  uint32_t queue_position = 0;  // from 1; 0 if it does not wait
  uint32_t attempt = 0;
  int64_t submitted_unix_ms = 0;
  bool is_held_back = false;  // a failed attempt; the next may begin a little later
};

// A worker as people see it.
struct WorkerView {
  WorkerFacts worker;
  WorkerState state = WorkerState::kLost;
  uint32_t leases = 0;
  int64_t last_seen_unix_ms = 0;
  std::string certificate;  // the last one; empty: none
  int64_t certified_unix_ms = 0;
  std::string canary_failure;  // empty: none
};

// How much there is to do.
struct LoadView {
  uint32_t queued_compile = 0;
  uint32_t queued_run = 0;
  uint32_t leases_compile = 0;
  uint32_t leases_run = 0;
  uint32_t leases_build = 0;
  uint32_t leases_canary = 0;
  uint32_t builds_waiting = 0;
  uint32_t active_evaluations = 0;
  uint64_t ended_evaluations = 0;  // of all times
};

// Every decision of the coordinator.
//
// Use: construct; Apply() each record of the log in order; Handle(CoordinatorStarted); then
// Handle() every event. Threads: none of its own; owned by the loop. Reads no clock, blocks never,
// and gives the same commands for the same records, events and times.
class Core {
 public:
  // REQUIRES: Problems(options) is empty.
  explicit Core(const CoreOptions& options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Replays one record. REQUIRES: before CoordinatorStarted, and that the log is one this core
  // wrote.
  void Apply(const Record& record);

  // Takes `event` as of `now` and returns what must be done, in order. REQUIRES: `now` does not go
  // backwards, and CoordinatorStarted comes first and once.
  std::vector<Command> Handle(const Event& event, MonoTime now);

  // When TimePassed is next due, if ever.
  std::optional<MonoTime> NextDeadline() const;

  // The fewest records that reproduce the durable state. The store may replace its log by them.
  std::vector<Record> Snapshot() const;

  // Views, for the shell's own thread. Lists are ordered by id.
  std::optional<EvaluationView> FindEvaluation(EvaluationId id) const;
  std::vector<EvaluationView> ActiveEvaluations() const;
  std::vector<WorkerView> Workers() const;
  // Whether `session` is the present one of a connected worker.
  bool IsLiveSession(const SessionId& session) const;
  LoadView Load() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pike::coordinator
