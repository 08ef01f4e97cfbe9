#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/deadline_index.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// One live lease: granted, and neither answered nor given up.
struct Lease {
  LeaseRef ref;
  LeaseKind kind = LeaseKind::kCompile;
  WorkerId worker_id;
  EvaluationId evaluation_id;  // of a compile or run lease
  uint64_t build_number = 0;   // of a build lease
  bool is_seen = false;        // the worker has named it as held
  bool is_missing = false;     // the worker came back without it
  MonoTime expires;            // unless the worker names it before
  MonoTime deadline;           // the worker must be done by then
};

// Who holds what until when. All of it is of this process only: after a restart it is filled from
// the evaluations' durable leases.
class LeaseTable {
 public:
  // REQUIRES: the id is new.
  void Add(const Lease& lease);
  void Remove(LeaseId id);
  // Null if it is not live. Valid until it is removed.
  const Lease* Find(LeaseId id) const;
  // The worker named the lease: it lives until `expires`.
  void Extend(LeaseId id, MonoTime expires);
  // The worker came back without the lease: unless its result still comes, it ends at `expires`.
  void MarkMissing(LeaseId id, MonoTime expires);

  // The live leases of one worker, by id.
  std::vector<LeaseId> OfWorker(const WorkerId& id) const;
  size_t Count(LeaseKind kind) const { return count_.at(static_cast<size_t>(kind)); }

  DeadlineIndex<LeaseId>& deadlines() { return deadlines_; }
  const DeadlineIndex<LeaseId>& deadlines() const { return deadlines_; }

 private:
  void SetDeadline(const Lease& lease);

  std::map<LeaseId, Lease> leases_;
  std::map<WorkerId, std::set<LeaseId>> by_worker_;
  std::vector<size_t> count_ = std::vector<size_t>(4, 0);  // by LeaseKind
  DeadlineIndex<LeaseId> deadlines_;
};

}  // namespace pike::coordinator
