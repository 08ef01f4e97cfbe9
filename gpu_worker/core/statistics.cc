#include "gpu_worker/core/statistics.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace pike::gpu {

double Quantile(const std::vector<double>& sorted, double q) {
  PIKE_CHECK(!sorted.empty());
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  return sorted[below] + weight * (sorted[above] - sorted[below]);
}

LatencySummary Summarize(const std::vector<double>& samples_ns) {
  LatencySummary summary;
  if (samples_ns.empty())
    return summary;
  double mean = 0;
  double squares = 0;  // sum of squared deviations from the mean so far
  size_t count = 0;
  for (const double sample : samples_ns) {
    ++count;
    const double delta = sample - mean;
    mean += delta / static_cast<double>(count);
    squares += delta * (sample - mean);
  }
  std::vector<double> sorted = samples_ns;
  std::sort(sorted.begin(), sorted.end());
  summary.calls = count;
  summary.mean_ns = mean;
  summary.median_ns = Quantile(sorted, 0.5);
  summary.min_ns = sorted.front();
  summary.p95_ns = Quantile(sorted, 0.95);
  summary.stddev_ns = count > 1 ? std::sqrt(squares / static_cast<double>(count - 1)) : 0;
  return summary;
}

}  // namespace pike::gpu
