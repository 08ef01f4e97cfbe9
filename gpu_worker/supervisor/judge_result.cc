#include "gpu_worker/supervisor/judge_result.h"

#include <algorithm>
#include <string>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/text.h"
#include "gpu_worker/core/clocks.h"
#include "gpu_worker/core/statistics.h"
#include "gpu_worker/core/verdict.h"
#include "gpu_worker/supervisor/json_frame.h"

namespace pike::gpu {
namespace {

constexpr size_t kOutputsMax = 64;
constexpr size_t kDimsMax = 16;
constexpr size_t kSamplesMax = 20'000;
constexpr size_t kNameBytesMax = 200;
constexpr size_t kLineBytesMax = 1000;
constexpr double kNsPerMs = 1e6;

std::string LineOf(const nlohmann::json& frame, const char* name, size_t bytes_max) {
  return EscapeLine(TextOf(frame, name).substr(0, bytes_max));
}

Event EventOf(const std::string& outcome, const std::string& kind) {
  if (outcome == "done")
    return Event::kDone;
  if (outcome == "mismatch")
    return Event::kMismatch;
  if (outcome == "call_failed")
    return Event::kCallFailed;
  if (outcome == "runner_gone")
    return Event::kProcessGone;
  if (outcome == "call_timeout")
    return Event::kDeadline;
  if (outcome == "violation")
    return Event::kViolation;
  if (outcome == "task_failed")
    return kind == "device" ? Event::kDeviceFault : Event::kTaskFailed;
  return Event::kEnvironment;  // "aborted" without our asking, or nothing we know
}

std::vector<double> SamplesOf(const nlohmann::json& samples, const char* name) {
  std::vector<double> values;
  const nlohmann::json& list = MemberOf(samples, name);
  if (!list.is_array())
    return values;
  for (const nlohmann::json& value : list) {
    if (values.size() >= kSamplesMax)
      break;
    values.push_back(NumberOf(value));
  }
  return values;
}

v1::OutputError OutputOf(const nlohmann::json& output) {
  v1::OutputError error;
  error.set_path(LineOf(output, "path", kNameBytesMax));
  error.set_dtype(LineOf(output, "dtype", kNameBytesMax));
  for (const nlohmann::json& size : MemberOf(output, "shape")) {
    if (size.is_number_integer() && error.shape_size() < static_cast<int>(kDimsMax))
      error.add_shape(size.get<int64_t>());
  }
  for (const nlohmann::json& index : MemberOf(output, "first_mismatch")) {
    if (index.is_number_integer() && error.first_mismatch_size() < static_cast<int>(kDimsMax))
      error.add_first_mismatch(index.get<int64_t>());
  }
  error.set_max_abs_error(NumberOf(output, "max_abs_error"));
  error.set_max_rel_error(NumberOf(output, "max_rel_error"));
  error.set_mismatched(CountOf(output, "mismatched"));
  error.set_elements(CountOf(output, "elements"));
  error.set_expected_value(NumberOf(output, "expected_value"));
  error.set_actual_value(NumberOf(output, "actual_value"));
  return error;
}

void FillStats(const std::vector<double>& claims, const std::vector<double>& walls,
               const std::vector<double>& returns, v1::LatencyStats* stats) {
  const LatencySummary summary = Summarize(claims);
  stats->set_calls(static_cast<uint32_t>(summary.calls));
  stats->set_mean_ms(summary.mean_ns / kNsPerMs);
  stats->set_median_ms(summary.median_ns / kNsPerMs);
  stats->set_min_ms(summary.min_ns / kNsPerMs);
  stats->set_p95_ms(summary.p95_ns / kNsPerMs);
  stats->set_stddev_ms(summary.stddev_ns / kNsPerMs);
  stats->set_judge_mean_ms(Summarize(walls).mean_ns / kNsPerMs);
  stats->set_return_mean_ms(Summarize(returns).mean_ns / kNsPerMs);
}

}  // namespace

Observation ObservationOfResult(const nlohmann::json& result, Phase phase) {
  Observation seen;
  seen.phase = phase;
  const std::string outcome = TextOf(result, "outcome");
  seen.event = EventOf(outcome, TextOf(result, "kind"));
  const std::string side = TextOf(result, "side");
  seen.side = side == "candidate"   ? Side::kCandidate
              : side == "reference" ? Side::kReference
                                    : Side::kJudge;
  seen.error_type = TextOf(result, "error_type");
  seen.is_memory_exception = TextOf(result, "kind") == "memory";
  seen.text = TextOf(result, "text");
  if (seen.event == Event::kMismatch)
    seen.text = TextOf(MemberOf(result, "correctness"), "first_failure");
  if (seen.event == Event::kEnvironment && seen.text.empty())
    seen.text = absl::StrCat("the judge answered with outcome '", EscapeLine(outcome), "'");
  const nlohmann::json& reference = MemberOf(result, "reference");
  seen.is_reference_mismatch =
      CountOf(reference, "calls_passed") < CountOf(reference, "calls_compared");
  const nlohmann::json& samples = MemberOf(result, "samples");
  seen.samples.candidate_claim_ns = SamplesOf(samples, "candidate_claim_ns");
  seen.samples.candidate_wall_ns = SamplesOf(samples, "candidate_wall_ns");
  seen.samples.candidate_copy_ns = SamplesOf(samples, "candidate_copy_ns");
  seen.samples.candidate_return_ns = SamplesOf(samples, "candidate_return_ns");
  seen.samples.reference_claim_ns = SamplesOf(samples, "reference_claim_ns");
  seen.samples.reference_wall_ns = SamplesOf(samples, "reference_wall_ns");
  seen.samples.reference_copy_ns = SamplesOf(samples, "reference_copy_ns");
  seen.samples.reference_return_ns = SamplesOf(samples, "reference_return_ns");
  return seen;
}

v1::Correctness CorrectnessOfResult(const nlohmann::json& result) {
  const nlohmann::json& from = MemberOf(result, "correctness");
  v1::Correctness correctness;
  correctness.set_calls_compared(static_cast<uint32_t>(CountOf(from, "calls_compared")));
  correctness.set_calls_passed(static_cast<uint32_t>(CountOf(from, "calls_passed")));
  correctness.set_first_failure(LineOf(from, "first_failure", kLineBytesMax));
  correctness.set_input_mutated(FlagOf(from, "input_mutated"));
  correctness.set_precision_class(LineOf(from, "precision_class", kNameBytesMax));
  correctness.set_precision_error(NumberOf(from, "precision_error"));
  const nlohmann::json& outputs = MemberOf(from, "outputs");
  if (outputs.is_array()) {
    for (const nlohmann::json& output : outputs) {
      if (correctness.outputs_size() >= static_cast<int>(kOutputsMax))
        break;
      *correctness.add_outputs() = OutputOf(output);
    }
  }
  return correctness;
}

v1::Measurement MeasurementOf(const Samples& all, bool is_cuda) {
  v1::Measurement measurement;
  const bool is_possible = FindImpossibleClaims(all).empty();
  const Samples samples = is_possible ? WithoutHiccups(all) : all;
  FillStats(samples.candidate_claim_ns, samples.candidate_wall_ns, samples.candidate_return_ns,
            measurement.mutable_candidate());
  FillStats(samples.reference_claim_ns, samples.reference_wall_ns, samples.reference_return_ns,
            measurement.mutable_reference());
  if (measurement.candidate().mean_ms() > 0)
    measurement.set_speedup(measurement.reference().mean_ms() / measurement.candidate().mean_ms());
  measurement.set_clock(is_cuda ? "cuda_events" : "steady_clock");
  if (!is_possible)
    return measurement;
  const ClockCheck clocks = CheckClocks(samples);
  measurement.set_protocol_ms(clocks.protocol_ns / kNsPerMs);
  measurement.set_clock_gap_ms(clocks.gap_ns / kNsPerMs);
  measurement.set_clock_tolerance_ms(clocks.tolerance_ns / kNsPerMs);
  if (clocks.AreAgreed() && measurement.candidate().mean_ms() > 0)
    measurement.set_speedup_certified(
        measurement.reference().mean_ms() /
        (measurement.candidate().mean_ms() + measurement.clock_tolerance_ms()));
  return measurement;
}

}  // namespace pike::gpu
