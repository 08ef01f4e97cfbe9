#include "coordinator/core/lease_table.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {

void LeaseTable::Add(const Lease& lease) {
  PIKE_CHECK(leases_.emplace(lease.ref.lease_id, lease).second);
  by_worker_[lease.worker_id].insert(lease.ref.lease_id);
  ++count_.at(static_cast<size_t>(lease.kind));
  SetDeadline(lease);
}

void LeaseTable::Remove(LeaseId id) {
  const auto it = leases_.find(id);
  PIKE_CHECK(it != leases_.end());
  const auto held = by_worker_.find(it->second.worker_id);
  held->second.erase(id);
  if (held->second.empty())
    by_worker_.erase(held);
  --count_.at(static_cast<size_t>(it->second.kind));
  deadlines_.Clear(id);
  leases_.erase(it);
}

const Lease* LeaseTable::Find(LeaseId id) const {
  const auto it = leases_.find(id);
  return it == leases_.end() ? nullptr : &it->second;
}

void LeaseTable::Extend(LeaseId id, MonoTime expires) {
  Lease& lease = leases_.at(id);
  lease.is_seen = true;
  lease.is_missing = false;
  lease.expires = expires;
  SetDeadline(lease);
}

void LeaseTable::MarkMissing(LeaseId id, MonoTime expires) {
  Lease& lease = leases_.at(id);
  lease.is_missing = true;
  lease.expires = std::min(lease.expires, expires);
  SetDeadline(lease);
}

std::vector<LeaseId> LeaseTable::OfWorker(const WorkerId& id) const {
  const auto it = by_worker_.find(id);
  if (it == by_worker_.end())
    return {};
  return {it->second.begin(), it->second.end()};
}

void LeaseTable::SetDeadline(const Lease& lease) {
  deadlines_.Set(lease.ref.lease_id, std::min(lease.expires, lease.deadline));
}

}  // namespace pike::coordinator
