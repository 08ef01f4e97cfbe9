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

}  // namespace
}  // namespace pike::sandbox
