#include "coordinator/core/build_table.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {

uint64_t BuildTable::Add(Build build, MonoTime deadline) {
  const uint64_t number = next_number_++;
  build.number = number;
  PIKE_CHECK(by_key_.emplace(build.key, number).second);
  builds_.emplace(number, std::move(build));
  waiting_.insert(number);
  deadlines_.Set(number, deadline);
  return number;
}

void BuildTable::Remove(uint64_t number) {
  const auto it = builds_.find(number);
  PIKE_CHECK(it != builds_.end());
  by_key_.erase(it->second.key);
  waiting_.erase(number);
  held_back_.Clear(number);
  deadlines_.Clear(number);
  builds_.erase(it);
}

Build* BuildTable::Find(uint64_t number) {
  const auto it = builds_.find(number);
  return it == builds_.end() ? nullptr : &it->second;
}

size_t BuildTable::CountOf(const SessionId& session) const {
  return OfSession(session).size();
}

std::vector<uint64_t> BuildTable::OfSession(const SessionId& session) const {
  std::vector<uint64_t> numbers;
  for (auto it = by_key_.lower_bound({session, 0});
       it != by_key_.end() && it->first.session == session; ++it)
    numbers.push_back(it->second);
  return numbers;
}

std::vector<uint64_t> BuildTable::OfRunLease(LeaseId run_lease) const {
  std::vector<uint64_t> numbers;
  for (const auto& [number, build] : builds_) {
    if (build.run_lease == run_lease)
      numbers.push_back(number);
  }
  return numbers;
}

void BuildTable::SetLease(uint64_t number, std::optional<LeaseId> lease) {
  Build* build = Find(number);
  PIKE_CHECK(build != nullptr);
  build->lease = lease;
  if (lease.has_value())
    waiting_.erase(number);
  else
    waiting_.insert(number);
}

void BuildTable::HoldBack(uint64_t number, MonoTime until) {
  PIKE_CHECK(waiting_.erase(number) == 1);
  held_back_.Set(number, until);
}

void BuildTable::ReleaseDue(MonoTime now) {
  for (const uint64_t number : held_back_.TakeDue(now))
    waiting_.insert(number);
}

}  // namespace pike::coordinator
