#include "gpu_worker/core/statistics.h"

#include <cmath>

#include "gpu_worker/core/pausable_deadline.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

using std::chrono::milliseconds;
using testing::Approx;

TEST_CASE("Statistics: no samples give zeros") {
  const LatencySummary summary = Summarize({});
  CHECK(summary.calls == 0);
  CHECK(summary.mean_ns == 0);
}

TEST_CASE("Statistics: one sample is its own mean, median and tail") {
  const LatencySummary summary = Summarize({42});
  CHECK(summary.calls == 1);
  CHECK(summary.mean_ns == 42);
  CHECK(summary.median_ns == 42);
  CHECK(summary.p95_ns == 42);
  CHECK(summary.min_ns == 42);
  CHECK(summary.stddev_ns == 0);
}

// numpy: a = [7, 1, 3, 9, 5]; a.mean(), median(a), quantile(a, .95), std(a, ddof=1)
TEST_CASE("Statistics: values agree with numpy's definitions") {
  const LatencySummary summary = Summarize({7, 1, 3, 9, 5});
  CHECK(summary.mean_ns == Approx(5));
  CHECK(summary.median_ns == Approx(5));
  CHECK(summary.p95_ns == Approx(8.6));
  CHECK(summary.min_ns == 1);
  CHECK(summary.stddev_ns == Approx(std::sqrt(10.0)));
}

TEST_CASE("Statistics: the median of an even count lies between the middle two") {
  CHECK(Summarize({4, 1, 2, 3}).median_ns == Approx(2.5));
}

TEST_CASE("Statistics: the deviation survives a large common offset") {
  CHECK(Summarize({1e15 + 1, 1e15 + 2, 1e15 + 3}).stddev_ns == Approx(1));
}

TEST_CASE("PausableDeadline: a pause is not charged") {
  const MonoTime start{};
  PausableDeadline deadline(start, milliseconds(100));
  deadline.Pause(start + milliseconds(40));
  deadline.Pause(start + milliseconds(50));
  CHECK_FALSE(deadline.HasPassed(start + milliseconds(500)));
  CHECK_FALSE(deadline.At());
  deadline.Resume(start + milliseconds(600));
  CHECK(deadline.is_paused());
  deadline.Resume(start + milliseconds(640));
  CHECK_FALSE(deadline.HasPassed(start + milliseconds(699)));
  CHECK(deadline.HasPassed(start + milliseconds(700)));
}

}  // namespace
}  // namespace pike::gpu
