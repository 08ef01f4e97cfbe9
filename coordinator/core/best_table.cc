#include "coordinator/core/best_table.h"

#include <string>
#include <vector>

namespace pike::coordinator {

double BestTable::SpeedupOf(const std::string& contest, const std::string& gpu_class) const {
  const auto it = bests_.find({contest, gpu_class});
  return it == bests_.end() ? 0 : it->second.best.speedup;
}

void BestTable::Apply(const BestKept& record) {
  const bool is_better = record.speedup > SpeedupOf(record.contest, record.gpu_class);
  if (record.contest.empty() || !is_better)
    return;
  const Key key(record.contest, record.gpu_class);
  Entry& entry = bests_[key];
  by_age_.erase(entry.number);
  entry = {record, ++last_number_};
  by_age_.emplace(entry.number, key);
  if (bests_.size() <= bests_max_)
    return;
  const auto oldest = by_age_.begin();
  bests_.erase(oldest->second);
  by_age_.erase(oldest);
}

void BestTable::Withdraw(const std::string& contest, EvaluationId id) {
  for (auto it = bests_.lower_bound({contest, ""});
       it != bests_.end() && it->first.first == contest;) {
    if (it->second.best.evaluation_id != id) {
      ++it;
      continue;
    }
    by_age_.erase(it->second.number);
    it = bests_.erase(it);
  }
}

void BestTable::AppendSnapshot(std::vector<Record>* records) const {
  for (const auto& [number, key] : by_age_)
    records->push_back(bests_.at(key).best);
}

}  // namespace pike::coordinator
