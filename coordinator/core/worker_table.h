#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/deadline_index.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/record.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// A lease that the worker was told to stop. It keeps its slot until the worker is known to have.
struct StoppingLease {
  bool is_seen = false;  // the worker has named it as held
  MonoTime since;
};

// One worker of the last ten minutes.
struct WorkerEntry {
  // Durable.
  WorkerFacts facts;
  std::optional<std::string> drain_reason;  // set: gets no more leases
  // Of this process only.
  std::optional<SessionId> session;  // set: connected
  MonoTime heard;
  MonoTime served_until;  // when it last stopped taking work
  uint32_t leases = 0;    // live ones
  std::map<LeaseRef, StoppingLease> stopping;
  std::deque<LeaseRef> finished;  // results taken lately, bounded

  bool is_connected() const { return session.has_value(); }
  bool is_taking_work() const { return is_connected() && !drain_reason.has_value(); }
  uint32_t free_slots() const {
    const size_t used = leases + stopping.size();
    return is_taking_work() && used < facts.slots ? facts.slots - static_cast<uint32_t>(used) : 0;
  }
};

// Workers and their sessions. Durable fields change by Apply() only, in replay and in life.
class WorkerTable {
 public:
  explicit WorkerTable(const CoreOptions& options) : options_(options) {}

  void Apply(const WorkerSeen& record);
  void Apply(const WorkerForgotten& record);
  void Apply(const WorkerDrained& record);

  // Null if not known.
  WorkerEntry* Find(const WorkerId& id);
  // Null if `session` is not the present session of a worker.
  WorkerEntry* FindSession(const SessionId& session);
  const WorkerEntry* FindSession(const SessionId& session) const;
  const std::map<WorkerId, WorkerEntry>& all() const { return workers_; }

  // REQUIRES: the worker is known and not connected.
  void Connect(const WorkerId& id, const SessionId& session, MonoTime now);
  // Keeps what is known of the worker, its leases too.
  void Disconnect(WorkerEntry* worker, MonoTime now);
  // It stops taking work now, if it takes any. Call before what makes it stop.
  void StopServing(WorkerEntry* worker, MonoTime now);
  // Something came from the worker.
  void Touch(WorkerEntry* worker, MonoTime now);
  // After a restart nobody is connected, and everybody was heard of just now.
  void StartClocks(MonoTime now);

  // The worker is done with a lease, for a result has come.
  void Finish(WorkerEntry* worker, const LeaseRef& lease);

  // When a worker is silent for too long (connected), or forgotten (not connected).
  DeadlineIndex<WorkerId>& deadlines() { return deadlines_; }
  const DeadlineIndex<WorkerId>& deadlines() const { return deadlines_; }

  void AppendSnapshot(std::vector<Record>* records) const;

 private:
  void SetDeadline(const WorkerEntry& worker);

  const CoreOptions& options_;
  std::map<WorkerId, WorkerEntry> workers_;
  std::map<SessionId, WorkerId> sessions_;
  DeadlineIndex<WorkerId> deadlines_;
};

}  // namespace pike::coordinator
