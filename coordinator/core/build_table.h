#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/deadline_index.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// How a GPU worker names its request.
struct BuildKey {
  SessionId session;
  uint64_t build_request_id = 0;
  friend auto operator<=>(const BuildKey&, const BuildKey&) = default;
};

// One late build that a GPU worker waits for.
struct Build {
  uint64_t number = 0;  // order of arrival
  BuildKey key;
  LeaseId run_lease;  // the run that asked
  BuildTarget target;
  std::string request_sha256;
  Milliseconds timeout{0};
  uint32_t attempts = 0;         // leases given
  std::optional<LeaseId> lease;  // held now
  std::string last_failure;
};

// Late builds, oldest first. Of this process only: after a restart the requester asks again.
class BuildTable {
 public:
  // Gives the build a number and returns it. REQUIRES: the key is new.
  uint64_t Add(Build build, MonoTime deadline);
  void Remove(uint64_t number);
  // Null if there is none. Valid until it is removed.
  Build* Find(uint64_t number);
  bool Contains(const BuildKey& key) const { return by_key_.count(key) > 0; }
  size_t CountOf(const SessionId& session) const;
  std::vector<uint64_t> OfSession(const SessionId& session) const;
  std::vector<uint64_t> OfRunLease(LeaseId run_lease) const;

  // Marks a build as leased, or as waiting again.
  void SetLease(uint64_t number, std::optional<LeaseId> lease);
  // Keeps a build without a lease from the next one until a time.
  void HoldBack(uint64_t number, MonoTime until);
  void ReleaseDue(MonoTime now);
  std::optional<MonoTime> NextRelease() const { return held_back_.Next(); }
  // Numbers of the builds that may get a lease now.
  const std::set<uint64_t>& waiting() const { return waiting_; }
  // Builds without a lease, held back or not.
  size_t waiting_count() const { return waiting_.size() + held_back_.size(); }

  DeadlineIndex<uint64_t>& deadlines() { return deadlines_; }
  const DeadlineIndex<uint64_t>& deadlines() const { return deadlines_; }

 private:
  uint64_t next_number_ = 1;
  std::map<uint64_t, Build> builds_;
  std::map<BuildKey, uint64_t> by_key_;
  std::set<uint64_t> waiting_;
  DeadlineIndex<uint64_t> held_back_;
  DeadlineIndex<uint64_t> deadlines_;
};

}  // namespace pike::coordinator
