#include "gpu_worker/core/precision.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace pike::gpu {
namespace {

struct Precision {
  std::string_view name;
  // Outputs that are off by less are not told from exact ones. Half a unit in the last place; of
  // fp64, whose error is not measured, what some hundred operations add up to.
  double rounding;
};

// Finest first.
constexpr Precision kPrecisions[] = {
    {"fp64", 0x1p-44}, {"fp32", 0x1p-24}, {"tf32", 0x1p-11}, {"fp16", 0x1p-11}, {"bf16", 0x1p-8}};

size_t RankOf(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kPrecisions), std::end(kPrecisions),
                   [name](const Precision& precision) { return precision.name == name; });
  return static_cast<size_t>(found - std::begin(kPrecisions));
}

std::optional<double> ErrorOf(const ReferencePrecision& reference, std::string_view name) {
  if (name == "fp64")
    return 0;
  for (const PrecisionError& row : reference.errors) {
    if (row.name == name)
      return row.error;
  }
  return std::nullopt;
}

}  // namespace

std::vector<PrecisionError> FindPrecisionBounds(const ReferencePrecision& reference, double slack) {
  std::vector<PrecisionError> bounds;
  if (!reference.native_error || !std::isfinite(*reference.native_error))
    return bounds;
  const double native = *reference.native_error;
  for (const Precision& precision : kPrecisions) {
    const std::optional<double> error = ErrorOf(reference, precision.name);
    if (!error)
      continue;
    const double own = std::max(*error, precision.rounding);
    if (native <= slack * own)
      bounds.push_back({std::string(precision.name), slack * std::max(own, native)});
  }
  return bounds;
}

std::optional<PrecisionError> FindLeastPrecision(const std::vector<PrecisionError>& bounds,
                                                 std::string_view asked) {
  for (const PrecisionError& bound : bounds) {
    if (RankOf(bound.name) >= RankOf(asked))
      return bound;
  }
  return std::nullopt;
}

}  // namespace pike::gpu
