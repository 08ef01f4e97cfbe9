#include "coordinator/core/fair_queue.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>

#include "common/base/check.h"

namespace pike::coordinator {

void FairQueue::Insert(const Principal& principal, const Need& need, EvaluationId id) {
  Lane& lane = lanes_[principal];
  PIKE_CHECK(lane.by_need[need].insert(id).second);
  ++lane.size;
  ++size_;
}

void FairQueue::Erase(const Principal& principal, const Need& need, EvaluationId id) {
  const auto lane = lanes_.find(principal);
  PIKE_CHECK(lane != lanes_.end());
  const auto ids = lane->second.by_need.find(need);
  PIKE_CHECK(ids != lane->second.by_need.end());
  PIKE_CHECK(ids->second.erase(id) == 1);
  if (ids->second.empty())
    lane->second.by_need.erase(ids);
  --lane->second.size;
  --size_;
  if (lane->second.size == 0)
    lanes_.erase(lane);
}

std::optional<EvaluationId> FairQueue::Next(const std::function<bool(const Need&)>& fits) const {
  auto lane = last_served_.has_value() ? lanes_.upper_bound(*last_served_) : lanes_.begin();
  for (size_t turn = 0; turn < lanes_.size(); ++turn, ++lane) {
    if (lane == lanes_.end())
      lane = lanes_.begin();
    std::optional<EvaluationId> first;
    for (const auto& [need, ids] : lane->second.by_need) {
      if ((!first.has_value() || *ids.begin() < *first) && fits(need))
        first = *ids.begin();
    }
    if (first.has_value())
      return first;
  }
  return std::nullopt;
}

uint32_t FairQueue::Position(const Principal& principal, EvaluationId id) const {
  const auto own = lanes_.find(principal);
  PIKE_CHECK(own != lanes_.end());
  size_t before = 0;
  for (const auto& [need, ids] : own->second.by_need) {
    // The newest is the common question; counting a set is linear.
    before += *ids.rbegin() < id
                  ? ids.size()
                  : static_cast<size_t>(std::distance(ids.begin(), ids.lower_bound(id)));
  }
  size_t position = before + 1;
  const auto has_earlier_turn = [&](const Principal& other) {
    const bool is_other_later = last_served_.has_value() && other <= *last_served_;
    const bool is_own_later = last_served_.has_value() && principal <= *last_served_;
    return is_other_later == is_own_later ? other < principal : is_own_later;
  };
  for (const auto& [other, lane] : lanes_) {
    if (other != principal)
      position += std::min(lane.size, before + (has_earlier_turn(other) ? 1 : 0));
  }
  return static_cast<uint32_t>(position);
}

}  // namespace pike::coordinator
