#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "coordinator/core/types.h"

namespace pike::coordinator {

// What a queued evaluation needs of a worker. `target` is empty before the compile stage.
struct Need {
  Demand demand;
  BuildTarget target;
  friend auto operator<=>(const Need&, const Need&) = default;
};

// The queue of one stage. Principals take turns: of those who wait for something that can be had,
// the one whose last turn (or whose entry, if it came back since) is the longest ago is next. A
// round robin would not do: with needs of several kinds it can pass over one principal for ever.
// Within a principal the oldest evaluation is first, so that one which comes back after a lost
// attempt has its old place. Evaluations of one need are kept together: a look-up costs by needs,
// not by evaluations.
class FairQueue {
 public:
  // REQUIRES: `id` is not in the queue.
  void Insert(const Principal& principal, const Need& need, EvaluationId id);
  // REQUIRES: `id` is in the queue with this principal and need.
  void Erase(const Principal& principal, const Need& need, EvaluationId id);

  // The evaluation whose turn it is, among those whose need `fits`. Changes nothing.
  std::optional<EvaluationId> Next(const std::function<bool(const Need&)>& fits) const;
  // Puts `principal` behind all others. REQUIRES: it has an evaluation here.
  void EndTurn(const Principal& principal);

  // Place in the order of service, from 1, if all needs were served alike.
  uint32_t Position(const Principal& principal, EvaluationId id) const;
  size_t size() const { return size_; }

 private:
  struct Lane {
    std::map<Need, std::set<EvaluationId>> by_need;
    size_t size = 0;
    uint64_t turn = 0;
  };

  std::map<Principal, Lane> lanes_;  // none is empty
  std::map<uint64_t, Principal> by_turn_;
  uint64_t last_turn_ = 0;
  size_t size_ = 0;
};

}  // namespace pike::coordinator
