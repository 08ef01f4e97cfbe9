#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/check.h"

namespace pike::coordinator::sim {

// Seeded numbers, the same everywhere (splitmix64). Ranges are inclusive.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    return mixed ^ (mixed >> 31);
  }

  int64_t Between(int64_t low, int64_t high) {
    PIKE_CHECK(low <= high);
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  uint32_t Count(uint32_t low, uint32_t high) { return static_cast<uint32_t>(Between(low, high)); }
  std::chrono::milliseconds Span(int64_t low_ms, int64_t high_ms) {
    return std::chrono::milliseconds(Between(low_ms, high_ms));
  }
  // True `permille` times in a thousand.
  bool Chance(uint32_t permille) { return Next() % 1000 < permille; }

 private:
  uint64_t state_;
};

}  // namespace pike::coordinator::sim
