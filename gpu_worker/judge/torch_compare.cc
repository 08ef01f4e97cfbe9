#include "gpu_worker/judge/torch_compare.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/check.h"

namespace pike::gpu {
namespace {

constexpr int64_t kElementsPerPiece = 1 << 22;  // 32 MiB for each temporary of doubles
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct TypeRow {
  at::ScalarType type;
  uint8_t type_code;
  uint8_t bits;
};
constexpr TypeRow kTypes[] = {
    {at::kBool, 6, 8},    {at::kChar, 0, 8},          {at::kShort, 0, 16},
    {at::kInt, 0, 32},    {at::kLong, 0, 64},         {at::kByte, 1, 8},
    {at::kUInt16, 1, 16}, {at::kUInt32, 1, 32},       {at::kUInt64, 1, 64},
    {at::kHalf, 2, 16},   {at::kBFloat16, 4, 16},     {at::kFloat, 2, 32},
    {at::kDouble, 2, 64}, {at::kComplexFloat, 5, 64}, {at::kComplexDouble, 5, 128},
};

// Elements of one piece: |expected - actual| and |expected|, and which are out of tolerance.
struct Errors {
  at::Tensor abs_error;
  at::Tensor magnitude;
  at::Tensor is_wrong;
};

at::Tensor FindAbsError(const at::Tensor& expected, const at::Tensor& actual) {
  const at::Tensor are_finite = expected.isfinite().logical_and(actual.isfinite());
  const at::Tensor are_same =
      expected.eq(actual).logical_or(expected.isnan().logical_and(actual.isnan()));
  const at::Tensor not_finite = at::where(are_same, 0.0, kInfinity).to(at::kDouble);
  return at::where(are_finite, actual.sub(expected).abs(), not_finite);
}

void FindWrong(const Tolerance& tolerance, Errors& errors) {
  const at::Tensor is_near =
      errors.abs_error.le(errors.magnitude.mul(tolerance.rtol).add(tolerance.atol))
          .logical_and(errors.abs_error.isfinite());
  errors.is_wrong = is_near.logical_or(errors.abs_error.eq(0)).logical_not();
}

Errors CompareReal(const at::Tensor& expected, const at::Tensor& actual,
                   const Tolerance& tolerance) {
  const at::Tensor want = expected.to(at::kDouble);
  Errors errors = {FindAbsError(want, actual.to(at::kDouble)), want.abs(), {}};
  FindWrong(tolerance, errors);
  return errors;
}

Errors CompareComplex(const at::Tensor& expected, const at::Tensor& actual,
                      const Tolerance& tolerance) {
  const at::Tensor want = at::view_as_real(expected).to(at::kDouble);
  const at::Tensor part_error = FindAbsError(want, at::view_as_real(actual).to(at::kDouble));
  const at::Tensor magnitude = at::hypot(want.select(1, 0), want.select(1, 1));
  Errors errors = {at::hypot(part_error.select(1, 0), part_error.select(1, 1)),
                   at::where(magnitude.isnan(), 0.0, magnitude),
                   {}};
  FindWrong(tolerance, errors);
  return errors;
}

at::ScalarType SignedType(int64_t bytes) {
  return bytes == 1 ? at::kChar : bytes == 2 ? at::kShort : bytes == 4 ? at::kInt : at::kLong;
}

Errors CompareExact(const at::Tensor& expected, const at::Tensor& actual) {
  const at::ScalarType type = SignedType(expected.element_size());
  Errors errors;
  errors.is_wrong = expected.view(type).ne(actual.view(type));
  // A bool is compared by its byte.
  const bool is_bool = expected.scalar_type() == at::kBool;
  const at::Tensor want = (is_bool ? expected.view(at::kByte) : expected).to(at::kDouble);
  const at::Tensor got = (is_bool ? actual.view(at::kByte) : actual).to(at::kDouble);
  // Large neighbours may be one double: unequal integers differ by one at least.
  errors.abs_error = at::where(errors.is_wrong, got.sub(want).abs().clamp_min(1), 0.0);
  errors.magnitude = want.abs();
  return errors;
}

Errors ComparePiece(const at::Tensor& expected, const at::Tensor& actual,
                    const Tolerance& tolerance) {
  if (expected.is_complex())
    return CompareComplex(expected, actual, tolerance);
  if (expected.is_floating_point())
    return CompareReal(expected, actual, tolerance);
  return CompareExact(expected, actual);
}

constexpr int64_t kSums = 6;

// [mismatched, largest abs error, largest rel error, first mismatch or the end, squares of errors,
// squares of what was expected], still on the device.
at::Tensor Summarise(const Errors& errors, int64_t offset) {
  const int64_t elements = errors.abs_error.numel();
  const at::Tensor has_magnitude = errors.magnitude.gt(0).logical_and(errors.magnitude.isfinite());
  const at::Tensor rel_error =
      at::where(has_magnitude, errors.abs_error.div(errors.magnitude), 0.0);
  const at::Tensor places =
      at::arange(elements, errors.abs_error.options().dtype(at::kLong)).add(offset);
  const at::Tensor first = at::where(errors.is_wrong, places, offset + elements).min();
  const at::Tensor are_finite =
      errors.abs_error.isfinite().logical_and(errors.magnitude.isfinite());
  return at::stack({errors.is_wrong.sum().to(at::kDouble), errors.abs_error.max(), rel_error.max(),
                    first.to(at::kDouble),
                    at::where(are_finite, errors.abs_error, 0.0).square().sum(),
                    at::where(are_finite, errors.magnitude, 0.0).square().sum()});
}

double ReadElement(const at::Tensor& flat, int64_t index) {
  at::Tensor element = flat.slice(/*dim=*/0, index, index + 1);
  if (element.is_complex())
    element = at::view_as_real(element).select(1, 0);
  if (element.scalar_type() == at::kBool)
    element = element.view(at::kByte);
  return element.to(at::kDouble).item<double>();
}

at::Tensor View(const PlacedTensor& tensor, bool is_packed) {
  const std::optional<at::ScalarType> type = FindScalarType(*tensor.spec);
  PIKE_CHECK(type.has_value());
  const at::IntArrayRef sizes(tensor.spec->dims, tensor.spec->dim_count);
  const at::Device device(at::kCUDA, 0);
  const at::TensorOptions options = at::TensorOptions().dtype(*type).device(device);
  void* const bytes = const_cast<void*>(tensor.bytes);
  const auto keep = [](void*) {};  // both belong to others
  if (is_packed)
    return at::from_blob(bytes, sizes, keep, options, device);
  const at::IntArrayRef strides(tensor.spec->strides, tensor.spec->dim_count);
  return at::from_blob(bytes, sizes, strides, keep, options, device);
}

}  // namespace

std::optional<at::ScalarType> FindScalarType(const TensorSpec& spec) {
  for (const TypeRow& row : kTypes) {
    if (row.type_code == spec.type_code && row.bits == spec.bits)
      return row.type;
  }
  return std::nullopt;
}

bool SetElementType(at::ScalarType type, TensorSpec& spec) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) {
      spec.type_code = row.type_code;
      spec.bits = row.bits;
      return true;
    }
  }
  return false;
}

TensorError CompareTensors(const at::Tensor& expected, const at::Tensor& actual,
                           const Tolerance& tolerance) {
  const at::NoGradGuard no_grad;
  const at::Tensor want = expected.reshape({-1});
  const at::Tensor got = actual.reshape({-1});
  TensorError error;
  error.elements = static_cast<uint64_t>(want.numel());
  if (error.elements == 0)
    return error;
  std::vector<at::Tensor> parts;
  for (int64_t offset = 0; offset < want.numel(); offset += kElementsPerPiece) {
    const int64_t end = std::min(offset + kElementsPerPiece, want.numel());
    parts.push_back(Summarise(
        ComparePiece(want.slice(0, offset, end), got.slice(0, offset, end), tolerance), offset));
  }
  const at::Tensor sums = at::stack(parts).cpu().contiguous();
  const double* row = sums.const_data_ptr<double>();
  for (std::size_t i = 0; i < parts.size(); ++i, row += kSums) {
    if (row[0] > 0 && !error.first_mismatch)
      error.first_mismatch = static_cast<uint64_t>(row[3]);
    error.mismatched += static_cast<uint64_t>(row[0]);
    error.max_abs_error = std::max(error.max_abs_error, row[1]);
    error.max_rel_error = std::max(error.max_rel_error, row[2]);
    error.error_squares += row[4];
    error.expected_squares += row[5];
  }
  if (error.first_mismatch) {
    error.expected_value = ReadElement(want, static_cast<int64_t>(*error.first_mismatch));
    error.actual_value = ReadElement(got, static_cast<int64_t>(*error.first_mismatch));
  }
  return error;
}

std::optional<TaskFailure> CompareOnGpu(const PlacedTensor& expected, const PlacedTensor& actual,
                                        const Tolerance& tolerance, TensorError& error) {
  // No address belongs to an empty tensor.
  if (CountElements(*expected.spec).value_or(0) == 0) {
    error = {};
    return std::nullopt;
  }
  try {
    error = CompareTensors(View(expected, /*is_packed=*/true), View(actual, /*is_packed=*/false),
                           tolerance);
    return std::nullopt;
  } catch (const std::exception& exception) {  // c10::Error, for instance for want of memory
    return ExplainTorchError(exception, "comparison");
  }
}

TaskFailure ExplainTorchError(const std::exception& exception, const char* where) {
  const bool is_memory = dynamic_cast<const c10::OutOfMemoryError*>(&exception) != nullptr;
  return {.where = where,
          .kind = is_memory ? "memory" : "exception",
          .error_type = "",
          .text = exception.what()};
}

}  // namespace pike::gpu
