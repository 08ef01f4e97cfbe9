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
  const auto [it, is_new] = lanes_.try_emplace(principal);
  Lane& lane = it->second;
  if (is_new) {
    lane.turn = ++last_turn_;
    by_turn_.emplace(lane.turn, principal);
  }
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
  if (lane->second.size == 0) {
    by_turn_.erase(lane->second.turn);
    lanes_.erase(lane);
  }
}

void FairQueue::EndTurn(const Principal& principal) {
  Lane& lane = lanes_.at(principal);
  by_turn_.erase(lane.turn);
  lane.turn = ++last_turn_;
  by_turn_.emplace(lane.turn, principal);
}

std::optional<EvaluationId> FairQueue::Next(const std::function<bool(const Need&)>& fits) const {
  for (const auto& [turn, principal] : by_turn_) {
    std::optional<EvaluationId> first;
    for (const auto& [need, ids] : lanes_.at(principal).by_need) {
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
  for (const auto& [other, lane] : lanes_) {
    if (other != principal)
      position += std::min(lane.size, before + (lane.turn < own->second.turn ? 1 : 0));
  }
  return static_cast<uint32_t>(position);
}

}  // namespace pike::coordinator
