#include "gpu_worker/judge/result_json.h"

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "gpu_worker/judge/element_type.h"
#include "gpu_worker/judge/runner_side.h"
#include "gpu_worker/judge/value_tree.h"

namespace pike::gpu {
namespace {

constexpr std::size_t kTextBytesShown = 8192;

// Writes one JSON object, member by member.
class ObjectWriter {
 public:
  ObjectWriter& Raw(std::string_view name, std::string_view json) {
    text_ += text_.empty() ? '{' : ',';
    text_ += Quote(name);
    text_ += ':';
    text_ += json;
    return *this;
  }
  ObjectWriter& Str(std::string_view name, std::string_view value) {
    return Raw(name, Quote(value));
  }
  ObjectWriter& Count(std::string_view name, uint64_t value) {
    return Raw(name, std::to_string(value));
  }
  ObjectWriter& Bool(std::string_view name, bool value) {
    return Raw(name, value ? "true" : "false");
  }
  ObjectWriter& Number(std::string_view name, double value) {
    if (std::isnan(value))
      return Str(name, "nan");
    if (std::isinf(value))
      return Str(name, value > 0 ? "inf" : "-inf");
    char text[40];
    std::snprintf(text, sizeof(text), "%.9g", value);
    return Raw(name, text);
  }
  std::string Take() { return std::exchange(text_, "") + "}"; }

 private:
  static std::string Quote(std::string_view value) {
    std::string quoted = "\"";
    for (const char c : value.substr(0, kTextBytesShown)) {
      if (c == '"' || c == '\\') {
        quoted += '\\';
        quoted += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
        quoted += escape;
      } else {
        quoted += c;
      }
    }
    return quoted + "\"";
  }

  std::string text_;
};

template <typename Item, typename Write>
std::string ArrayOf(const std::vector<Item>& items, Write write) {
  std::string text = "[";
  for (const Item& item : items) {
    if (text.size() > 1)
      text += ',';
    text += write(item);
  }
  return text + "]";
}

std::string DimsToJson(const TensorSpec& spec) {
  return FormatDims(spec.dims, spec.dim_count);
}

std::string TypeName(const TensorSpec& spec) {
  const std::optional<ElementType> type = FindElementType(spec.type_code, spec.bits);
  return type ? std::string(ElementTypeName(*type)) : "?";
}

std::string OutputToJson(const OutputRecord& output) {
  const TensorError& worst = output.worst;
  std::vector<int64_t> first;
  if (worst.first_mismatch)
    first = UnravelIndex(output.spec, *worst.first_mismatch);
  return ObjectWriter()
      .Str("path", output.path)
      .Raw("shape", DimsToJson(output.spec))
      .Str("dtype", TypeName(output.spec))
      .Number("max_abs_error", worst.max_abs_error)
      .Number("max_rel_error", worst.max_rel_error)
      .Count("mismatched", worst.mismatched)
      .Count("elements", worst.elements)
      .Raw("first_mismatch", FormatDims(first.data(), first.size()))
      .Number("expected_value", worst.expected_value)
      .Number("actual_value", worst.actual_value)
      .Take();
}

ObjectWriter CheckToJson(const OutputCheck& check) {
  ObjectWriter writer;
  writer.Count("calls_compared", check.calls_compared())
      .Count("calls_passed", check.calls_passed())
      .Str("first_failure", check.first_failure())
      .Bool("input_mutated", check.is_input_mutated())
      .Str("precision_class", check.precision_class())
      .Number("precision_error", check.precision_error());
  return writer;
}

std::string SamplesToJson(const Samples& samples) {
  const auto numbers = [](const std::vector<uint64_t>& values) {
    return ArrayOf(values, [](uint64_t value) { return std::to_string(value); });
  };
  return ObjectWriter()
      .Raw("candidate_claim_ns", numbers(samples.candidate_claim_ns))
      .Raw("candidate_wall_ns", numbers(samples.candidate_wall_ns))
      .Raw("candidate_copy_ns", numbers(samples.candidate_copy_ns))
      .Raw("candidate_return_ns", numbers(samples.candidate_return_ns))
      .Raw("reference_claim_ns", numbers(samples.reference_claim_ns))
      .Raw("reference_wall_ns", numbers(samples.reference_wall_ns))
      .Raw("reference_copy_ns", numbers(samples.reference_copy_ns))
      .Raw("reference_return_ns", numbers(samples.reference_return_ns))
      .Take();
}

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kMismatch:
      return "mismatch";
    case Outcome::kCallFailed:
      return "call_failed";
    case Outcome::kRunnerGone:
      return "runner_gone";
    case Outcome::kCallTimeout:
      return "call_timeout";
    case Outcome::kViolation:
      return "violation";
    case Outcome::kAborted:
      return "aborted";
    case Outcome::kTaskFailed:
      return "task_failed";
  }
  return "?";
}

const char* SideText(SideName side) {
  switch (side) {
    case SideName::kNone:
      return "";
    case SideName::kCandidate:
      return "candidate";
    case SideName::kReference:
      return "reference";
  }
  return "?";
}

// The tensors of a value with their places in it.
std::string TensorsToJson(const TaskValue& value) {
  const std::optional<ValueNode> tree = ParseValue(value.text, value.tensors.size());
  std::vector<LeafPair> leaves;
  if (!tree || !PairLeaves(*tree, *tree, leaves).empty())
    return "[]";
  std::erase_if(leaves,
                [](const LeafPair& leaf) { return leaf.expected->kind != ValueKind::kTensor; });
  return ArrayOf(leaves, [&](const LeafPair& leaf) {
    const TensorSpec& spec = value.tensors[leaf.expected->tensor].spec;
    return ObjectWriter()
        .Str("path", leaf.path)
        .Str("dtype", TypeName(spec))
        .Raw("shape", DimsToJson(spec))
        .Take();
  });
}

std::string DeviceToJson(const DeviceFacts& device) {
  return ObjectWriter()
      .Str("kind", device.kind)
      .Str("name", device.name)
      .Count("memory_total_bytes", device.memory_total_bytes)
      .Count("memory_free_bytes", device.memory_free_bytes)
      .Number("sentinel_us", device.sentinel_us)
      .Str("why_memfd", device.why_memfd)
      .Number("bytes_per_s", device.bytes_per_s)
      .Take();
}

}  // namespace

std::string ResultToJson(std::string_view op, const OperationResult& result,
                         const Evaluation* evaluation, double elapsed_ms) {
  ObjectWriter writer;
  writer.Str("type", "result")
      .Str("op", op)
      .Str("outcome", OutcomeName(result.outcome))
      .Str("side", SideText(result.side))
      .Count("call", result.call)
      .Str("text", result.task_failure ? result.task_failure->text : result.text)
      .Str("error_type", result.task_failure ? result.task_failure->error_type : result.error_type)
      .Str("kind", result.task_failure ? result.task_failure->kind : result.kind)
      .Str("where", result.task_failure ? result.task_failure->where : "")
      .Number("elapsed_ms", elapsed_ms);
  if (evaluation != nullptr) {
    const OutputCheck& check = evaluation->candidate_check();
    writer.Raw("correctness",
               CheckToJson(check).Raw("outputs", ArrayOf(check.outputs(), OutputToJson)).Take());
    writer.Raw("reference", CheckToJson(evaluation->reference_check()).Take());
  }
  writer.Raw("samples", SamplesToJson(result.samples));
  return writer.Take();
}

std::string TaskFailureToJson(const TaskFailure& failure) {
  return ObjectWriter()
      .Str("type", "task_failed")
      .Str("where", failure.where)
      .Str("kind", failure.kind)
      .Str("error_type", failure.error_type)
      .Str("text", failure.text)
      .Take();
}

std::string TaskSummaryToJson(const TaskSummary& summary) {
  return ObjectWriter()
      .Str("type", "task_ready")
      .Raw("inputs", TensorsToJson(summary.input))
      .Raw("outputs", TensorsToJson(summary.output))
      .Count("input_bytes", BufferBytes(summary.input))
      .Count("output_bytes", BufferBytes(summary.output))
      .Number("reference_ms", summary.reference_ms)
      .Raw("device", DeviceToJson(summary.device))
      .Take();
}

std::string PreparedToJson(const TaskSource& task, double elapsed_ms) {
  return ObjectWriter()
      .Str("type", "prepared")
      .Count("inputs", task.stock())
      .Count("bytes", task.stock_bytes())
      .Number("elapsed_ms", elapsed_ms)
      .Take();
}

std::string SettledToJson(bool is_quiet, const SentinelLook& look, double elapsed_ms) {
  return ObjectWriter()
      .Str("type", "settled")
      .Bool("is_quiet", is_quiet)
      .Number("sentinel_us", look.sentinel_us)
      .Number("baseline_us", look.baseline_us)
      .Count("memory_free_bytes", look.memory_free_bytes)
      .Number("elapsed_ms", elapsed_ms)
      .Take();
}

}  // namespace pike::gpu
