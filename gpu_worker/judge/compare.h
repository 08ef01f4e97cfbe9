#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu_worker/judge/element_type.h"

namespace pike::gpu {

// |actual - expected| <= atol + rtol * |expected|; integers and bools must be equal. NaN matches
// NaN and an infinity the same infinity, nothing else that is not finite matches.
struct Tolerance {
  double atol = 1e-2;
  double rtol = 1e-2;
};

// Errors of one output tensor.
struct TensorError {
  uint64_t elements = 0;
  uint64_t mismatched = 0;
  double max_abs_error = 0;  // infinite if only one side is finite
  double max_rel_error = 0;  // over elements whose expected value is not zero
  // Sums of squares over floating elements that are finite on both sides.
  double error_squares = 0;
  double expected_squares = 0;
  // The first element out of tolerance in memory order, if any.
  std::optional<uint64_t> first_mismatch;
  double expected_value = 0;  // there; the real part of a complex number
  double actual_value = 0;
};

// Compares `elements` packed elements. Neither array needs to be aligned.
TensorError CompareElements(ElementType type, const void* expected, const void* actual,
                            uint64_t elements, const Tolerance& tolerance);

// ||actual - expected|| / ||expected|| of a floating tensor; infinite if only one of them is 0, or
// where only one side is finite.
double RelativeError(const TensorError& error);

// Whether one float is within tolerance of the other.
bool IsClose(double expected, double actual, const Tolerance& tolerance);

// The index along each dimension of element `flat` of a packed tensor.
std::vector<int64_t> UnravelIndex(const TensorSpec& spec, uint64_t flat);

// "[2, 3]".
std::string FormatDims(const int64_t* dims, std::size_t count);

}  // namespace pike::gpu
