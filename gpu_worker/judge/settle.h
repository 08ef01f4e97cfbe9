#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "gpu_worker/judge/bench_device.h"

namespace pike::gpu {

struct SettlePolicy {
  std::chrono::milliseconds timeout{};
  uint64_t memory_floor_bytes = 0;  // 0: none
};

struct SettleResult {
  bool is_quiet = false;
  SentinelLook look;  // the last one
};

using LookAtSentinel = std::function<std::optional<TaskFailure>(SentinelLook& look)>;

// Looks at the sentinel until it is at its baseline five times in a row with enough free memory, or
// time is up. `pause` is called between looks that find company; true ends the wait.
std::optional<TaskFailure> Settle(const LookAtSentinel& look_at, const SettlePolicy& policy,
                                  const std::function<bool()>& pause, SettleResult& result);

}  // namespace pike::gpu
