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

// The queue of one stage: principals take turns, and within one the oldest evaluation is first, so
// that one which comes back after a lost attempt has its old place. Evaluations of one need are
// kept together, so that a look-up costs by needs, not by evaluations.
class FairQueue {
 public:
  // REQUIRES: `id` is not in the queue.
  void Insert(const Principal& principal, const Need& need, EvaluationId id);
  // REQUIRES: `id` is in the queue with this principal and need.
  void Erase(const Principal& principal, const Need& need, EvaluationId id);

  // The evaluation whose turn it is, among those whose need `fits`. Changes nothing.
  std::optional<EvaluationId> Next(const std::function<bool(const Need&)>& fits) const;
  // Ends the turn of `principal`.
  void EndTurn(const Principal& principal) { last_served_ = principal; }

  // Place in the order of service, from 1, if all needs were served alike.
  uint32_t Position(const Principal& principal, EvaluationId id) const;
  size_t size() const { return size_; }

 private:
  struct Lane {
    std::map<Need, std::set<EvaluationId>> by_need;
    size_t size = 0;
  };

  std::map<Principal, Lane> lanes_;  // none is empty
  std::optional<Principal> last_served_;
  size_t size_ = 0;
};

}  // namespace pike::coordinator
