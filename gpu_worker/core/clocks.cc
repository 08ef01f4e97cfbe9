#include "gpu_worker/core/clocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "common/base/check.h"
#include "gpu_worker/core/statistics.h"

namespace pike::gpu {
namespace {

constexpr double kTolerance = 0.02;
constexpr size_t kCallsPerHiccup = 20;
constexpr size_t kCallsWithHiccups = 20;

// What of each call is neither claimed nor the judge's own copying.
std::vector<double> GapsOf(const std::vector<double>& walls, const std::vector<double>& copies,
                           const std::vector<double>& claims) {
  std::vector<double> gaps;
  for (size_t i = 0; i < walls.size(); ++i)
    gaps.push_back(walls[i] - claims[i] - (copies.empty() ? 0 : copies[i]));
  return gaps;
}

std::vector<double> CandidateGaps(const Samples& samples) {
  return GapsOf(samples.candidate_wall_ns, samples.candidate_copy_ns, samples.candidate_claim_ns);
}

std::vector<double> ReferenceGaps(const Samples& samples) {
  return GapsOf(samples.reference_wall_ns, samples.reference_copy_ns, samples.reference_claim_ns);
}

// Three standard errors for many calls. For few, the deviation is itself uncertain: Student's t at
// the same level (one-sided 0.00135), by 3 exp(3.7 / degrees of freedom), which is at most 15 %
// above it.
double SigmasOf(size_t calls) {
  return 3 * std::exp(3.7 / static_cast<double>(std::max<size_t>(calls, 2) - 1));
}

// Places of the `count` largest values.
std::vector<size_t> LargestOf(const std::vector<double>& values, size_t count) {
  std::vector<size_t> places(values.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::sort(places.begin(), places.end(),
            [&values](size_t a, size_t b) { return values[a] > values[b]; });
  places.resize(count);
  return places;
}

std::vector<double> Without(const std::vector<double>& values, const std::set<size_t>& places) {
  std::vector<double> rest;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!places.contains(i))
      rest.push_back(values[i]);
  }
  return rest;
}

}  // namespace

ClockCheck CheckClocks(const Samples& samples) {
  PIKE_CHECK(IsComplete(samples));
  std::vector<double> gaps = ReferenceGaps(samples);
  const LatencySummary reference = Summarize(gaps);
  const LatencySummary candidate = Summarize(CandidateGaps(samples));
  std::sort(gaps.begin(), gaps.end());
  ClockCheck check;
  check.protocol_ns = Quantile(gaps, 0.5);
  check.gap_ns = candidate.mean_ns - reference.mean_ns;
  // Of the difference of two means, both as uncertain as the reference's.
  const double error_ns =
      reference.stddev_ns * std::sqrt(2.0 / static_cast<double>(reference.calls));
  const double seen_ns =
      Summarize(samples.candidate_claim_ns).mean_ns + std::max(check.gap_ns, 0.0);
  check.tolerance_ns = std::max({kTolerance * seen_ns, SigmasOf(reference.calls) * error_ns,
                                 samples.protocol_slack * check.protocol_ns});
  return check;
}

Samples WithoutHiccups(const Samples& samples) {
  PIKE_CHECK(IsComplete(samples));
  const size_t calls = samples.candidate_claim_ns.size();
  if (calls < kCallsWithHiccups)
    return samples;
  const size_t count = (calls + kCallsPerHiccup - 1) / kCallsPerHiccup;
  std::set<size_t> places;
  for (const std::vector<double>& gaps : {CandidateGaps(samples), ReferenceGaps(samples)}) {
    for (const size_t place : LargestOf(gaps, count))
      places.insert(place);
  }
  return {.candidate_claim_ns = Without(samples.candidate_claim_ns, places),
          .candidate_wall_ns = Without(samples.candidate_wall_ns, places),
          .reference_claim_ns = Without(samples.reference_claim_ns, places),
          .reference_wall_ns = Without(samples.reference_wall_ns, places),
          .candidate_copy_ns = Without(samples.candidate_copy_ns, places),
          .reference_copy_ns = Without(samples.reference_copy_ns, places),
          .candidate_return_ns = Without(samples.candidate_return_ns, places),
          .reference_return_ns = Without(samples.reference_return_ns, places),
          .protocol_slack = samples.protocol_slack};
}

}  // namespace pike::gpu
