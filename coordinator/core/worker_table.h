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

// Canaries are given one after the other.
struct CanaryRound {
  size_t next = 0;               // the one that is tried or will be
  uint32_t attempts = 0;         // leases given for it
  uint32_t doubts = 0;           // judgements of the round that noise can explain
  std::optional<LeaseId> lease;  // held now
  int64_t started_unix_ms = 0;
  MonoTime gives_way_until;  // to work that waits
  bool is_first = false;     // of the worker: a short one
};

// One worker of the last ten minutes.
struct WorkerEntry {
  // Durable.
  WorkerFacts facts;
  std::optional<std::string> drain_reason;  // set: gets no more leases
  std::string certificate;                  // the last one; empty: none
  uint32_t rounds = 0;                      // certificates so far
  int64_t certified_unix_ms = 0;
  std::string canary_failure;  // set: it is drained for that
  // Of this process only.
  std::optional<SessionId> session;  // set: connected
  MonoTime heard;
  MonoTime served_until;  // when it last stopped taking work
  uint32_t leases = 0;    // live ones
  std::map<LeaseRef, StoppingLease> stopping;
  std::deque<LeaseRef> finished;  // results taken lately, bounded
  std::optional<CanaryRound> round;
  bool awaits_certificate = false;  // canaries come before work

  bool is_connected() const { return session.has_value(); }
  bool is_taking_work() const { return is_connected() && !drain_reason.has_value(); }
  // For work; canaries take any idle one.
  uint32_t free_slots() const { return awaits_certificate ? 0 : idle_slots(); }
  uint32_t idle_slots() const {
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
  void Apply(const CertificateGranted& record);
  void Apply(const CanaryFailed& record);

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

  // When a worker's next round of canaries, or the next try in one, is due.
  DeadlineIndex<WorkerId>& canaries_due() { return canaries_due_; }
  const DeadlineIndex<WorkerId>& canaries_due() const { return canaries_due_; }

  void AppendSnapshot(std::vector<Record>* records) const;

 private:
  void SetDeadline(const WorkerEntry& worker);

  const CoreOptions& options_;
  std::map<WorkerId, WorkerEntry> workers_;
  std::map<SessionId, WorkerId> sessions_;
  DeadlineIndex<WorkerId> deadlines_;
  DeadlineIndex<WorkerId> canaries_due_;
};

}  // namespace pike::coordinator
