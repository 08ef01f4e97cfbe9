#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pike::gpu {

// A precision by its name ("fp64", "fp32", "tf32", "fp16", "bf16") and a relative error,
// ||y - y64|| / ||y64||, where y64 is the reference in double precision.
struct PrecisionError {
  std::string name;
  double error = 0;
};

// What is known about a reference.
struct ReferencePrecision {
  // Its errors when it is computed in other precisions; any may be missing.
  std::vector<PrecisionError> errors;
  // Its error as it is, which is what candidates are compared with. Nothing: not known, then
  // nothing below is.
  std::optional<double> native_error;
};

// What outputs may be off by, compared with those of the reference as it is, to be as good as those
// of each precision: `slack` times the reference's own error in it, but not less than the
// precision's rounding nor the error of what they are compared with. Finest first, without those
// that are finer than the reference itself: they cannot be told apart. Pure.
std::vector<PrecisionError> FindPrecisionBounds(const ReferencePrecision& reference, double slack);

// The bound of the precision that is asked for by name, or of the finest coarser one that is known.
// Nothing if there is none.
std::optional<PrecisionError> FindLeastPrecision(const std::vector<PrecisionError>& bounds,
                                                 std::string_view asked);

}  // namespace pike::gpu
