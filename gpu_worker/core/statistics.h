#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pike::gpu {

// Statistics of one side's timed calls, in nanoseconds. All zero if there were none.
struct LatencySummary {
  size_t calls = 0;
  double mean_ns = 0;
  double median_ns = 0;
  double min_ns = 0;
  double p95_ns = 0;
  double stddev_ns = 0;
};

// Summarises raw samples (any order).
// Median and p95 are linear interpolations between order statistics at position q * (n - 1), as
// numpy.quantile's default does (Hyndman and Fan 1996, definition 7). The standard deviation is the
// sample's (divided by n - 1), by Welford's update, 0 for one sample.
LatencySummary Summarize(const std::vector<double>& samples_ns);

// Quantile `q` (0 to 1) of sorted samples, by the same definition. REQUIRES: not empty.
double Quantile(const std::vector<double>& sorted, double q);

}  // namespace pike::gpu
