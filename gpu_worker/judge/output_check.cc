#include "gpu_worker/judge/output_check.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace pike::gpu {
namespace {

constexpr std::size_t kTextBytesShown = 500;

std::string FormatNumber(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", number);
  return text;
}

std::string FormatShape(const TensorSpec& spec) {
  return FormatDims(spec.dims, spec.dim_count);
}

std::string_view TypeName(const TensorSpec& spec) {
  const std::optional<ElementType> type = FindElementType(spec.type_code, spec.bits);
  return type ? ElementTypeName(*type) : "?";
}

std::string DeviceName(const TensorSpec& spec) {
  return spec.device_type == kCudaTensor ? "cuda" : "cpu";
}

std::string ReplyText(const CallRecord& reply) {
  return EscapeText(std::string_view(reply.text, reply.text_bytes), kTextBytesShown);
}

std::string DescribeMismatch(const std::string& path, const TensorSpec& spec,
                             const TensorError& error) {
  const std::vector<int64_t> index = UnravelIndex(spec, *error.first_mismatch);
  return path + ": " + std::to_string(error.mismatched) + " of " + std::to_string(error.elements) +
         " elements out of tolerance, first at " + FormatDims(index.data(), index.size()) +
         ": expected " + FormatNumber(error.expected_value) + ", got " +
         FormatNumber(error.actual_value) + "; largest error " + FormatNumber(error.max_abs_error);
}

bool IsFloating(const TensorSpec& spec) {
  constexpr uint8_t kFloat = 2;
  constexpr uint8_t kBfloat = 4;
  constexpr uint8_t kComplex = 5;
  return spec.type_code == kFloat || spec.type_code == kBfloat || spec.type_code == kComplex;
}

std::string CheckScalar(const LeafPair& leaf, const Tolerance& tolerance) {
  const ValueNode& want = *leaf.expected;
  const ValueNode& got = *leaf.actual;
  switch (want.kind) {
    case ValueKind::kFloat:
      if (IsClose(want.number, got.number, tolerance))
        return "";
      return leaf.path + ": expected " + FormatNumber(want.number) + ", got " +
             FormatNumber(got.number);
    case ValueKind::kBool:
    case ValueKind::kInt:
      if (want.integer == got.integer)
        return "";
      return leaf.path + ": expected " + std::to_string(want.integer) + ", got " +
             std::to_string(got.integer);
    case ValueKind::kStr:
      return want.text == got.text ? "" : leaf.path + ": another str than expected";
    default:
      return "";
  }
}

}  // namespace

bool OutputCheck::Add(uint32_t call, const TaskValue& expected, const RunnerOutput& actual) {
  ++calls_compared_;
  is_input_mutated_ = is_input_mutated_ || (actual.reply.flags & kInputMutated) != 0;
  const std::string failure = FindFailure(expected, actual);
  if (failure.empty()) {
    ++calls_passed_;
    return true;
  }
  if (first_failure_.empty())
    first_failure_ = "call " + std::to_string(call) + ": " + failure;
  return false;
}

std::string OutputCheck::FindFailure(const TaskValue& expected, const RunnerOutput& actual) {
  const CallRecord& reply = actual.reply;
  if (reply.status == CallStatus::kUnsupported || reply.status == CallStatus::kTooLarge)
    return ReplyText(reply);
  const std::optional<ValueNode> want = ParseValue(expected.text, expected.tensors.size());
  PIKE_CHECK(want.has_value());
  const std::optional<ValueNode> got =
      ParseValue(std::string_view(reply.text, reply.text_bytes), reply.tensor_count);
  if (!got)
    return "the description of the outputs is malformed";
  std::vector<LeafPair> leaves;
  std::string failure = PairLeaves(*want, *got, leaves);
  for (const LeafPair& leaf : leaves) {
    const std::string leaf_failure = CheckLeaf(leaf, expected, actual);
    if (failure.empty())
      failure = leaf_failure;
  }
  return failure;
}

std::string OutputCheck::CheckLeaf(const LeafPair& leaf, const TaskValue& expected,
                                   const RunnerOutput& actual) {
  if (leaf.expected->kind != ValueKind::kTensor) {
    is_exact_ = is_exact_ && CheckScalar(leaf, {0, 0}).empty();
    return CheckScalar(leaf, ToleranceOf(policy_, "float64"));
  }
  return CheckTensor(leaf, expected.tensors[leaf.expected->tensor], actual);
}

std::string OutputCheck::CheckTensor(const LeafPair& leaf, const TaskTensor& expected,
                                     const RunnerOutput& actual) {
  const TensorSpec& want = expected.spec;
  const TensorSpec& got = actual.reply.tensors[leaf.actual->tensor];
  if (want.type_code != got.type_code || want.bits != got.bits) {
    return leaf.path + ": expected dtype " + std::string(TypeName(want)) + ", got " +
           std::string(TypeName(got));
  }
  if (want.dim_count != got.dim_count ||
      !std::equal(want.dims, want.dims + want.dim_count, got.dims))
    return leaf.path + ": expected shape " + FormatShape(want) + ", got " + FormatShape(got);
  if (want.device_type != got.device_type) {
    return leaf.path + ": expected a tensor on " + DeviceName(want) + ", got one on " +
           DeviceName(got);
  }
  const uint8_t* const bytes = actual.snapshot ? actual.snapshot->bytes() + got.offset : nullptr;
  TensorError error;
  std::optional<TaskFailure> failure = device_.Compare({&want, expected.bytes}, {&got, bytes},
                                                       ToleranceOf(policy_, TypeName(want)), error);
  if (failure) {
    task_failure_ = std::move(failure);
    return leaf.path + ": cannot be compared";
  }
  Record(leaf.path, want, error);
  if (error.mismatched > 0)
    return DescribeMismatch(leaf.path, want, error);
  is_exact_ = is_exact_ && error.max_abs_error == 0;
  if (!IsFloating(want))
    return "";
  const double relative_error = RelativeError(error);
  precision_error_ = std::max(precision_error_, relative_error);
  return CheckPrecision(leaf.path, relative_error);
}

std::string OutputCheck::CheckPrecision(const std::string& path, double error) const {
  if (policy_.least.name.empty() || error <= policy_.least.error_max)
    return "";
  const std::string_view found = FindPrecisionClass(policy_, error, /*is_exact=*/false);
  return path + ": as coarse as " +
         (found == "tolerance" ? "no known precision" : std::string(found)) + " (off by " +
         FormatNumber(error) + " of its norm); the policy asks for " + policy_.least.name +
         " (at most " + FormatNumber(policy_.least.error_max) + ")";
}

std::string_view OutputCheck::precision_class() const {
  return calls_passed_ == 0 ? "" : FindPrecisionClass(policy_, precision_error_, is_exact_);
}

void OutputCheck::Record(const std::string& path, const TensorSpec& spec,
                         const TensorError& error) {
  auto it = std::find_if(outputs_.begin(), outputs_.end(),
                         [&](const OutputRecord& record) { return record.path == path; });
  if (it == outputs_.end()) {
    if (outputs_.size() < kOutputsMax)
      outputs_.push_back({path, spec, error});
    return;
  }
  TensorError& worst = it->worst;
  worst.max_abs_error = std::max(worst.max_abs_error, error.max_abs_error);
  worst.max_rel_error = std::max(worst.max_rel_error, error.max_rel_error);
  worst.mismatched = std::max(worst.mismatched, error.mismatched);
  if (!worst.first_mismatch && error.first_mismatch) {
    worst.first_mismatch = error.first_mismatch;
    worst.expected_value = error.expected_value;
    worst.actual_value = error.actual_value;
  }
}

}  // namespace pike::gpu
