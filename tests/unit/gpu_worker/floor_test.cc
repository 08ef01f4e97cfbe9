#include "gpu_worker/core/floor.h"

#include <vector>

#include "gpu_worker/core/verdict.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

using testing::Approx;

constexpr double kPeak = 4.8e12;  // bytes a second, of an H200
constexpr uint64_t kMiB = uint64_t{1} << 20;

Observation Timed(double candidate_ns, double reference_ns, double floor_ns) {
  Observation seen;
  seen.event = Event::kDone;
  seen.side = Side::kJudge;
  seen.floor_ns = floor_ns;
  seen.samples.candidate_claim_ns = std::vector<double>(5, candidate_ns);
  seen.samples.candidate_wall_ns = std::vector<double>(5, candidate_ns + 1e5);
  seen.samples.reference_claim_ns = std::vector<double>(5, reference_ns);
  seen.samples.reference_wall_ns = std::vector<double>(5, reference_ns + 1e5);
  return seen;
}

TEST_CASE("Floor: what must be read takes its time, with slack") {
  // 480 MB at 4.8 TB/s are 100 us.
  CHECK(FindFloorNs({.read = 480'000'000, .written = 0}, kPeak) == Approx(81'000));
}

TEST_CASE("Floor: outputs may stay in the cache") {
  CHECK(FindFloorNs({.read = 0, .written = 100 * kMiB}, kPeak) == Approx(1'000));
  CHECK(FindFloorNs({.read = 0, .written = 228 * kMiB}, kPeak) > 15'000);
}

TEST_CASE("Floor: not known without the peak") {
  CHECK(FindFloorNs({.read = 1 << 30, .written = 0}, 0) == 0);
  CHECK_FALSE(IsBelowFloor(Timed(1, 1e6, 0).samples, 0));
}

TEST_CASE("Floor: a claim below it is suspect and says why") {
  const Decision decision = Decide(Timed(50'000, 400'000, 81'000));
  CHECK(decision.kind == VerdictKind::kSuspect);
  CHECK_THAT(decision.reason,
             testing::Contains("a claimed time cannot be: it claims 0.05 ms a call"));
  CHECK_THAT(decision.reason, testing::Contains("at least 0.081 ms"));
  REQUIRE(decision.suspicions.size() == 1);
}

TEST_CASE("Floor: an honest claim and a floor that the reference breaks are no matter") {
  CHECK(Decide(Timed(82'000, 400'000, 81'000)).kind == VerdictKind::kValid);
  CHECK(Decide(Timed(50'000, 60'000, 81'000)).kind == VerdictKind::kValid);
}

}  // namespace
}  // namespace pike::gpu
