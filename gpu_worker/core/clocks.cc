#include "gpu_worker/core/clocks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/check.h"
#include "gpu_worker/core/statistics.h"

namespace pike::gpu {
namespace {

constexpr double kTolerance = 0.02;
constexpr double kSigmas = 3;
constexpr size_t kCallsPerOutlier = 100;

// wall - claim of each call, sorted.
std::vector<double> GapsOf(const std::vector<double>& walls, const std::vector<double>& claims) {
  std::vector<double> gaps;
  for (size_t i = 0; i < walls.size(); ++i)
    gaps.push_back(walls[i] - claims[i]);
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

LatencySummary SummarizeWithoutOutliers(std::vector<double> sorted) {
  const size_t outliers = (sorted.size() + kCallsPerOutlier - 1) / kCallsPerOutlier;
  if (sorted.size() > outliers + 1)
    sorted.resize(sorted.size() - outliers);
  return Summarize(sorted);
}

}  // namespace

ClockCheck CheckClocks(const Samples& samples) {
  PIKE_CHECK(IsComplete(samples));
  const std::vector<double> reference =
      GapsOf(samples.reference_wall_ns, samples.reference_claim_ns);
  const LatencySummary reference_gaps = SummarizeWithoutOutliers(reference);
  const LatencySummary candidate_gaps =
      SummarizeWithoutOutliers(GapsOf(samples.candidate_wall_ns, samples.candidate_claim_ns));
  ClockCheck check;
  check.protocol_ns = Quantile(reference, 0.5);
  check.gap_ns = candidate_gaps.mean_ns - reference_gaps.mean_ns;
  // Of the difference of two means, both as uncertain as the reference's.
  const double error_ns =
      reference_gaps.stddev_ns * std::sqrt(2.0 / static_cast<double>(reference_gaps.calls));
  const double seen_ns =
      Summarize(samples.candidate_claim_ns).mean_ns + std::max(check.gap_ns, 0.0);
  check.tolerance_ns = std::max(kTolerance * seen_ns, kSigmas * error_ns);
  return check;
}

}  // namespace pike::gpu
