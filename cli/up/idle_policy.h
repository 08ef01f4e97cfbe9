#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"

namespace pike::cli {

// When `pike up --until-idle` ends: nothing is left to do, and either an evaluation ended since the
// start or nothing came for the grace time. Pure.
class IdlePolicy {
 public:
  struct Limits {
    // Without any evaluation: from the first status on.
    std::chrono::milliseconds grace{60'000};
    // Nothing to do must last this long, so that a client may submit the next thing.
    std::chrono::milliseconds settle{3'000};
  };

  explicit IdlePolicy(Limits limits) : limits_(limits) {}

  // Takes Admin.GetStatus' counts. Returns whether it is time to end.
  bool OnStatus(uint32_t active, uint64_t ended, MonoTime now);

 private:
  const Limits limits_;
  std::optional<MonoTime> first_status_at_;
  uint64_t ended_at_first_ = 0;
  bool has_worked_ = false;
  std::optional<MonoTime> idle_since_;
};

}  // namespace pike::cli
