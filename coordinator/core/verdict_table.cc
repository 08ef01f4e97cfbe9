#include "coordinator/core/verdict_table.h"

#include <limits>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {

void VerdictTable::Apply(const VerdictKept& record) {
  PIKE_CHECK(numbers_.emplace(record.accepted.evaluation_id, ++last_number_).second);
  by_age_.emplace(last_number_, record);
  if (by_age_.size() > verdicts_max_)
    Remove(by_age_.begin()->second.accepted.evaluation_id);
}

void VerdictTable::Vouch(const WorkerId& worker_id, int64_t before_unix_ms) {
  RemoveOlder(worker_id, before_unix_ms);
}

void VerdictTable::Forget(const WorkerId& worker_id) {
  RemoveOlder(worker_id, std::numeric_limits<int64_t>::max());
}

void VerdictTable::Remove(EvaluationId id) {
  const auto it = numbers_.find(id);
  PIKE_CHECK(it != numbers_.end());
  by_age_.erase(it->second);
  numbers_.erase(it);
}

const VerdictKept* VerdictTable::Find(EvaluationId id) const {
  const auto it = numbers_.find(id);
  return it == numbers_.end() ? nullptr : &by_age_.at(it->second);
}

std::vector<EvaluationId> VerdictTable::OfWorker(const WorkerId& worker_id) const {
  std::vector<EvaluationId> ids;
  for (const auto& [number, kept] : by_age_) {
    if (kept.worker_id == worker_id)
      ids.push_back(kept.accepted.evaluation_id);
  }
  return ids;
}

void VerdictTable::AppendSnapshot(std::vector<Record>* records) const {
  for (const auto& [number, kept] : by_age_)
    records->push_back(kept);
}

void VerdictTable::RemoveOlder(const WorkerId& worker_id, int64_t before_unix_ms) {
  for (auto it = by_age_.begin(); it != by_age_.end();) {
    if (it->second.worker_id == worker_id && it->second.ended_unix_ms < before_unix_ms) {
      numbers_.erase(it->second.accepted.evaluation_id);
      it = by_age_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace pike::coordinator
