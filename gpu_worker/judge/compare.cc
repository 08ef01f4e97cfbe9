#include "gpu_worker/judge/compare.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace pike::gpu {
namespace {

template <typename Raw>
Raw LoadRaw(const uint8_t* bytes) {
  Raw raw = {};
  std::memcpy(&raw, bytes, sizeof(raw));
  return raw;
}

double HalfToDouble(uint16_t bits) {
  const int sign = bits >> 15;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(1024 + fraction, exponent - 25);
  return sign != 0 ? -value : value;
}

struct LoadFloat {
  using Raw = float;
  static double Get(const uint8_t* bytes) { return static_cast<double>(LoadRaw<float>(bytes)); }
};
struct LoadDouble {
  using Raw = double;
  static double Get(const uint8_t* bytes) { return LoadRaw<double>(bytes); }
};
struct LoadHalf {
  using Raw = uint16_t;
  static double Get(const uint8_t* bytes) { return HalfToDouble(LoadRaw<uint16_t>(bytes)); }
};
struct LoadBfloat {
  using Raw = uint16_t;
  static double Get(const uint8_t* bytes) {
    const uint32_t bits = static_cast<uint32_t>(LoadRaw<uint16_t>(bytes)) << 16;
    return static_cast<double>(std::bit_cast<float>(bits));
  }
};

double FindAbsError(double expected, double actual) {
  if (std::isfinite(expected) && std::isfinite(actual))
    return std::fabs(actual - expected);
  const bool are_same = expected == actual || (std::isnan(expected) && std::isnan(actual));
  return are_same ? 0 : std::numeric_limits<double>::infinity();
}

// Adds one element's error; `magnitude` is |expected|.
struct ErrorSum {
  const Tolerance& tolerance;
  TensorError& error;

  // Returns whether this is the first mismatch.
  bool Add(uint64_t index, double abs_error, double magnitude) {
    if (std::isfinite(abs_error) && std::isfinite(magnitude)) {
      error.error_squares += abs_error * abs_error;
      error.expected_squares += magnitude * magnitude;
    }
    if (abs_error > error.max_abs_error)
      error.max_abs_error = abs_error;
    if (magnitude > 0 && abs_error > error.max_rel_error * magnitude)
      error.max_rel_error = std::isfinite(magnitude) ? abs_error / magnitude
                                                     : std::numeric_limits<double>::infinity();
    // An infinite |expected| would make any tolerance infinite.
    const bool is_close =
        abs_error == 0 ||
        (std::isfinite(abs_error) && abs_error <= tolerance.atol + tolerance.rtol * magnitude);
    if (is_close)
      return false;
    ++error.mismatched;
    if (error.first_mismatch)
      return false;
    error.first_mismatch = index;
    return true;
  }
};

template <typename Load>
void CompareReal(const uint8_t* expected, const uint8_t* actual, const Tolerance& tolerance,
                 TensorError& error) {
  constexpr std::size_t kBytes = sizeof(typename Load::Raw);
  ErrorSum sum = {tolerance, error};
  for (uint64_t i = 0; i < error.elements; ++i) {
    const double want = Load::Get(expected + i * kBytes);
    const double got = Load::Get(actual + i * kBytes);
    if (sum.Add(i, FindAbsError(want, got), std::fabs(want))) {
      error.expected_value = want;
      error.actual_value = got;
    }
  }
}

template <typename Load>
void CompareComplex(const uint8_t* expected, const uint8_t* actual, const Tolerance& tolerance,
                    TensorError& error) {
  constexpr std::size_t kBytes = sizeof(typename Load::Raw);
  ErrorSum sum = {tolerance, error};
  for (uint64_t i = 0; i < error.elements; ++i) {
    const uint8_t* want = expected + 2 * i * kBytes;
    const uint8_t* got = actual + 2 * i * kBytes;
    const double abs_error =
        std::hypot(FindAbsError(Load::Get(want), Load::Get(got)),
                   FindAbsError(Load::Get(want + kBytes), Load::Get(got + kBytes)));
    const double magnitude = std::hypot(Load::Get(want), Load::Get(want + kBytes));
    if (sum.Add(i, abs_error, std::isnan(magnitude) ? 0 : magnitude)) {
      error.expected_value = Load::Get(want);
      error.actual_value = Load::Get(got);
    }
  }
}

template <typename Integer>
void CompareExact(const uint8_t* expected, const uint8_t* actual, TensorError& error) {
  if (std::memcmp(expected, actual, error.elements * sizeof(Integer)) == 0)
    return;
  const Tolerance exact = {0, 0};
  ErrorSum sum = {exact, error};
  for (uint64_t i = 0; i < error.elements; ++i) {
    const Integer want = LoadRaw<Integer>(expected + i * sizeof(Integer));
    const Integer got = LoadRaw<Integer>(actual + i * sizeof(Integer));
    if (want == got)
      continue;
    const double want_value = static_cast<double>(want);
    const double got_value = static_cast<double>(got);
    // Large neighbours may be one double: unequal integers differ by one at least.
    const double abs_error = std::fmax(1, std::fabs(got_value - want_value));
    if (sum.Add(i, abs_error, std::fabs(want_value))) {
      error.expected_value = want_value;
      error.actual_value = got_value;
    }
  }
}

}  // namespace

TensorError CompareElements(ElementType type, const void* expected, const void* actual,
                            uint64_t elements, const Tolerance& tolerance) {
  TensorError error;
  error.elements = elements;
  if (elements == 0)
    return error;
  const auto* want = static_cast<const uint8_t*>(expected);
  const auto* got = static_cast<const uint8_t*>(actual);
  switch (type) {
    case ElementType::kBool:
    case ElementType::kUint8:
      CompareExact<uint8_t>(want, got, error);
      break;
    case ElementType::kInt8:
      CompareExact<int8_t>(want, got, error);
      break;
    case ElementType::kInt16:
      CompareExact<int16_t>(want, got, error);
      break;
    case ElementType::kInt32:
      CompareExact<int32_t>(want, got, error);
      break;
    case ElementType::kInt64:
      CompareExact<int64_t>(want, got, error);
      break;
    case ElementType::kUint16:
      CompareExact<uint16_t>(want, got, error);
      break;
    case ElementType::kUint32:
      CompareExact<uint32_t>(want, got, error);
      break;
    case ElementType::kUint64:
      CompareExact<uint64_t>(want, got, error);
      break;
    case ElementType::kFloat16:
      CompareReal<LoadHalf>(want, got, tolerance, error);
      break;
    case ElementType::kBfloat16:
      CompareReal<LoadBfloat>(want, got, tolerance, error);
      break;
    case ElementType::kFloat32:
      CompareReal<LoadFloat>(want, got, tolerance, error);
      break;
    case ElementType::kFloat64:
      CompareReal<LoadDouble>(want, got, tolerance, error);
      break;
    case ElementType::kComplex64:
      CompareComplex<LoadFloat>(want, got, tolerance, error);
      break;
    case ElementType::kComplex128:
      CompareComplex<LoadDouble>(want, got, tolerance, error);
      break;
  }
  return error;
}

double RelativeError(const TensorError& error) {
  if (error.max_abs_error == 0)
    return 0;
  const double relative = std::sqrt(error.error_squares / error.expected_squares);
  return std::isfinite(relative) && std::isfinite(error.max_abs_error)
             ? relative
             : std::numeric_limits<double>::infinity();
}

bool IsClose(double expected, double actual, const Tolerance& tolerance) {
  return CompareElements(ElementType::kFloat64, &expected, &actual, /*elements=*/1, tolerance)
             .mismatched == 0;
}

std::vector<int64_t> UnravelIndex(const TensorSpec& spec, uint64_t flat) {
  std::vector<int64_t> index(spec.dim_count, 0);
  for (std::size_t i = spec.dim_count; i > 0; --i) {
    const uint64_t dim = static_cast<uint64_t>(spec.dims[i - 1]);
    if (dim == 0)
      return index;
    index[i - 1] = static_cast<int64_t>(flat % dim);
    flat /= dim;
  }
  return index;
}

std::string FormatDims(const int64_t* dims, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0)
      text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

}  // namespace pike::gpu
