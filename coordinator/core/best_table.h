#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/record.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// The best valid verdict of each contest on each GPU class, up to a bound; what was improved the
// longest ago is forgotten first. Whoever competes with a forgotten one is only confirmed once more
// than needed. Changes in replay and in life alike.
class BestTable {
 public:
  explicit BestTable(size_t bests_max) : bests_max_(bests_max) {}

  // 0 if none is known.
  double SpeedupOf(const std::string& contest, const std::string& gpu_class) const;

  // Takes it in if it is better than what is known. Without contest or speedup it is ignored.
  void Apply(const BestKept& record);
  // The verdict of this evaluation stands no longer.
  void Withdraw(const std::string& contest, EvaluationId id);

  void AppendSnapshot(std::vector<Record>* records) const;

 private:
  using Key = std::pair<std::string, std::string>;  // contest, GPU class
  struct Entry {
    BestKept best;
    uint64_t number = 0;  // in by_age_
  };

  const size_t bests_max_;
  uint64_t last_number_ = 0;
  std::map<Key, Entry> bests_;
  std::map<uint64_t, Key> by_age_;
};

}  // namespace pike::coordinator
