#include "gpu_worker/supervisor/core_claim.h"

#include "common/base/file.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

TEST_CASE("CoreClaim: no two workers on a core that one of them reserves") {
  const absl::StatusOr<TempFolder> folder = TempFolder::Create("pike-cores");
  REQUIRE(folder.ok());
  const auto take = [&folder](const device::CorePlan& plan) {
    return CoreClaim::Take(folder->path(), plan);
  };
  {
    const auto first = take({{{6, 7}}, {0, 1, 2, 3}});
    REQUIRE(first.ok());
    // The same plan, one that only runs there, and one that reserves where the first runs.
    for (const device::CorePlan& plan :
         {device::CorePlan{{{6, 7}}, {0, 1}}, device::CorePlan{{}, {6}},
          device::CorePlan{{{2, 3}}, {8}}}) {
      const auto other = take(plan);
      REQUIRE(absl::IsFailedPrecondition(other.status()));
      CHECK(other.status().message().find("taskset") != std::string::npos);
    }
    // Cores that nobody reserves are shared, and a failed claim left none of its own behind.
    CHECK(take({{{8, 9}}, {0, 1}}).ok());
  }
  CHECK(take({{{6, 7}}, {0, 1, 2, 3}}).ok());
}

}  // namespace
}  // namespace pike::gpu
