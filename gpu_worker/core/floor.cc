#include "gpu_worker/core/floor.h"

#include <algorithm>

#include "gpu_worker/core/clocks.h"
#include "gpu_worker/core/statistics.h"

namespace pike::gpu {
namespace {

constexpr double kPeakShare = 0.8;
// An empty kernel between two events takes several times as long.
constexpr double kLaunchNs = 1'000;
// No cache of a known GPU is larger. Outputs may stay there; inputs are flushed from it before the
// call.
constexpr uint64_t kCacheBytesMax = uint64_t{128} << 20;
constexpr double kNsPerSecond = 1e9;

}  // namespace

double FindFloorNs(const NeededBytes& bytes, double bytes_per_s) {
  if (!(bytes_per_s > 0))
    return 0;
  const uint64_t written = bytes.written - std::min(bytes.written, kCacheBytesMax);
  const double moved = static_cast<double>(bytes.read) + static_cast<double>(written);
  return kLaunchNs + kPeakShare * moved / bytes_per_s * kNsPerSecond;
}

bool IsBelowFloor(const Samples& samples, double floor_ns) {
  if (floor_ns <= 0)
    return false;
  const Samples rest = WithoutHiccups(samples);
  return Summarize(rest.candidate_claim_ns).mean_ns < floor_ns &&
         Summarize(rest.reference_claim_ns).mean_ns >= floor_ns;
}

}  // namespace pike::gpu
