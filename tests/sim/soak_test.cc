#include <cstdint>
#include <cstdlib>

#include "tests/sim/run_seed.h"
#include "tests/testing/catch.h"

namespace pike::coordinator::sim {
namespace {

TEST_CASE("Simulation: ten thousand seeds keep every invariant", "[sim][soak]") {
  for (uint64_t seed = 1'000'000; seed < 1'010'000; ++seed) {
    const RunResult result = RunSeed(seed);
    REQUIRE(result.text == "");
  }
}

}  // namespace
}  // namespace pike::coordinator::sim
