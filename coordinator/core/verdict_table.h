#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "coordinator/core/record.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// Verdicts of GPU workers that no later round of canaries has vouched for, with what it takes to
// queue their evaluations again; up to a bound, the oldest end first out. Changes in replay and in
// life alike.
class VerdictTable {
 public:
  explicit VerdictTable(size_t verdicts_max) : verdicts_max_(verdicts_max) {}

  void Apply(const VerdictKept& record);
  // The worker was found good: what it said before the round began is no longer in doubt.
  void Vouch(const WorkerId& worker_id, int64_t before_unix_ms);
  // Nobody will ever know.
  void Forget(const WorkerId& worker_id);
  void Remove(EvaluationId id);

  // Null if it is not there. Valid until the next change.
  const VerdictKept* Find(EvaluationId id) const;
  // Of one worker, oldest end first.
  std::vector<EvaluationId> OfWorker(const WorkerId& worker_id) const;
  size_t size() const { return by_age_.size(); }

  void AppendSnapshot(std::vector<Record>* records) const;

 private:
  void RemoveOlder(const WorkerId& worker_id, int64_t before_unix_ms);

  const size_t verdicts_max_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, VerdictKept> by_age_;
  std::map<EvaluationId, uint64_t> numbers_;
};

}  // namespace pike::coordinator
