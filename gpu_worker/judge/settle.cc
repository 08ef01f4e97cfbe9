#include "gpu_worker/judge/settle.h"

namespace pike::gpu {
namespace {

constexpr int kLooksInARow = 5;

}  // namespace

std::optional<TaskFailure> Settle(const LookAtSentinel& look_at, const SettlePolicy& policy,
                                  const std::function<bool()>& pause, SettleResult& result) {
  const auto end = std::chrono::steady_clock::now() + policy.timeout;
  int in_a_row = 0;
  while (true) {
    std::optional<TaskFailure> failure = look_at(result.look);
    if (failure)
      return failure;
    const bool is_good =
        result.look.is_baseline && result.look.memory_free_bytes >= policy.memory_floor_bytes;
    in_a_row = is_good ? in_a_row + 1 : 0;
    result.is_quiet = in_a_row >= kLooksInARow;
    if (result.is_quiet || std::chrono::steady_clock::now() >= end)
      return std::nullopt;
    if (!is_good && pause())
      return std::nullopt;
  }
}

}  // namespace pike::gpu
