#include "common/sandbox/memory_limit.h"

#include <optional>

#include "tests/testing/catch.h"

namespace pike::sandbox {
namespace {

TEST_CASE("JudgeKills: only a kill at the sandbox's own limit is its own fault", "[sandbox]") {
  CHECK(JudgeKills(1, 3).is_limit_hit);
  CHECK_FALSE(JudgeKills(1, 3).is_host_full);
  CHECK_FALSE(JudgeKills(1, 0).is_limit_hit);
  CHECK(JudgeKills(1, 0).is_host_full);
}

TEST_CASE("JudgeKills: no kill, no accusation; an old kernel speaks for the limit", "[sandbox]") {
  CHECK_FALSE(JudgeKills(0, 9).is_limit_hit);
  CHECK_FALSE(JudgeKills(0, 9).is_host_full);
  CHECK_FALSE(JudgeKills(std::nullopt, std::nullopt).is_limit_hit);
  CHECK(JudgeKills(2, std::nullopt).is_limit_hit);
}

TEST_CASE("LimitHitsByPeak: at the limit but for a batch, or well below it", "[sandbox]") {
  constexpr int64_t kMiB = int64_t{1} << 20;
  CHECK(LimitHitsByPeak(200 * kMiB, 200 * kMiB) == 1);
  CHECK(LimitHitsByPeak(198 * kMiB, 200 * kMiB) == 1);
  CHECK(LimitHitsByPeak(100 * kMiB, 200 * kMiB) == 0);
  CHECK(LimitHitsByPeak(100 * kMiB, std::nullopt) == 0);
  CHECK(LimitHitsByPeak(std::nullopt, 200 * kMiB) == std::nullopt);
}

}  // namespace
}  // namespace pike::sandbox
