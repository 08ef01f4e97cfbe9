#include "cli/record_text.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <google/protobuf/util/json_util.h>

#include "cli/format.h"
#include "cli/result_table.h"
#include "cli/table.h"
#include "cli/task_report_text.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

constexpr size_t kTextBytesMax = 128 << 10;

void AppendField(absl::string_view name, absl::string_view value, std::string* out) {
  if (!value.empty())
    absl::StrAppend(out, absl::StrFormat("%-12s ", name), EscapeLine(value), "\n");
}

// Text of several lines, indented below its title.
void AppendText(absl::string_view title, absl::string_view text, std::string* out) {
  if (text.empty())
    return;
  std::string escaped = EscapeUntrusted(text, kTextBytesMax);
  while (!escaped.empty() && escaped.back() == '\n')
    escaped.pop_back();
  absl::StrAppend(out, title, "\n  ", absl::StrReplaceAll(escaped, {{"\n", "\n  "}}), "\n");
}

void AppendTail(absl::string_view title, const v1::OutputTail& tail, std::string* out) {
  if (tail.head().empty() && tail.tail().empty())
    return;
  std::string text = tail.head();
  const size_t kept = tail.head().size() + tail.tail().size();
  if (tail.bytes_total() > kept && !tail.tail().empty())
    absl::StrAppend(&text, "\n[... ", FormatBytes(tail.bytes_total() - kept), " left out ...]\n");
  text += tail.tail();
  AppendText(absl::StrCat(title, " (", FormatBytes(tail.bytes_total()), ")"), text, out);
}

void AppendMeasurement(const v1::Measurement& measurement, std::string* out) {
  using Align = Table::Align;
  Table table({{"  latency [ms]"},
               {"mean", Align::kRight},
               {"median", Align::kRight},
               {"min", Align::kRight},
               {"p95", Align::kRight},
               {"stddev", Align::kRight},
               {"judge's mean", Align::kRight},
               {"returned", Align::kRight},
               {"calls", Align::kRight}});
  const auto add = [&table](absl::string_view side, const v1::LatencyStats& stats) {
    table.AddRow({absl::StrCat("  ", side), FormatMs(stats.mean_ms()), FormatMs(stats.median_ms()),
                  FormatMs(stats.min_ms()), FormatMs(stats.p95_ms()), FormatMs(stats.stddev_ms()),
                  FormatMs(stats.judge_mean_ms()),
                  stats.return_mean_ms() > 0 ? FormatMs(stats.return_mean_ms()) : "",
                  absl::StrCat(stats.calls())});
  };
  add("candidate", measurement.candidate());
  add("reference", measurement.reference());
  AppendField("speedup",
              absl::StrCat(FormatSpeedup(measurement.speedup()), " (", measurement.clock(), ")"),
              out);
  if (measurement.clock_tolerance_ms() > 0) {
    AppendField("clocks",
                absl::StrFormat("the judge's is %+.3g ms off its claims and a protocol of %.3g ms; "
                                "tolerance %.2g ms, %s certified",
                                measurement.clock_gap_ms(), measurement.protocol_ms(),
                                measurement.clock_tolerance_ms(),
                                measurement.speedup_certified() > 0
                                    ? FormatSpeedup(measurement.speedup_certified())
                                    : "nothing"),
                out);
  }
  if (measurement.floor_ms() > 0)
    AppendField("floor",
                absl::StrCat(FormatMs(measurement.floor_ms()),
                             " ms a call: one launch, and what must be read and written"),
                out);
  out->append(table.Render());
}

// The measurement that the one above confirmed, or did not.
void AppendUnconfirmed(const v1::Measurement& measurement, std::string* out) {
  AppendField("first run",
              absl::StrCat(FormatSpeedup(measurement.speedup()), ", a would-be best (candidate ",
                           FormatMs(measurement.candidate().mean_ms()), " ms, reference ",
                           FormatMs(measurement.reference().mean_ms()),
                           " ms); measured again in fresh processes, on new inputs"),
              out);
}

void AppendCorrectness(const v1::Correctness& correctness, std::string* out) {
  AppendField("compared",
              absl::StrCat(correctness.calls_passed(), " of ", correctness.calls_compared(),
                           " calls within tolerance",
                           correctness.input_mutated() ? "; an input was changed in place" : ""),
              out);
  AppendField("first fail", correctness.first_failure(), out);
  if (!correctness.precision_class().empty())
    AppendField("precision",
                absl::StrCat(correctness.precision_class(), ", off by ",
                             FormatErrorValue(correctness.precision_error()), " of the norm"),
                out);
  if (correctness.outputs().empty())
    return;
  using Align = Table::Align;
  Table table({{"  output"},
               {"dtype"},
               {"shape"},
               {"max abs error", Align::kRight},
               {"max rel error", Align::kRight},
               {"out of tolerance", Align::kRight},
               {"first at"},
               {"expected", Align::kRight},
               {"got", Align::kRight}});
  for (const v1::OutputError& output : correctness.outputs()) {
    const bool is_off = output.mismatched() > 0;
    table.AddRow(
        {absl::StrCat("  ", EscapeLine(output.path())), EscapeLine(output.dtype()),
         absl::StrCat("[", absl::StrJoin(output.shape(), ", "), "]"),
         FormatErrorValue(output.max_abs_error()), FormatErrorValue(output.max_rel_error()),
         absl::StrCat(output.mismatched(), " of ", output.elements()),
         is_off ? absl::StrCat("[", absl::StrJoin(output.first_mismatch(), ", "), "]") : "",
         is_off ? absl::StrFormat("%g", output.expected_value()) : "",
         is_off ? absl::StrFormat("%g", output.actual_value()) : ""});
  }
  out->append(table.Render());
}

void AppendBuild(const v1::BuildRecord& build, std::string* out) {
  std::string line = build.reused()
                         ? "reused"
                         : absl::StrCat("built in ", FormatStageSeconds(build.build_ms()), " s");
  if (build.has_error()) {
    const v1::BuildError& error = build.error();
    line = absl::StrCat("failed in ", error.tool());
    if (error.exit_status() < 0)
      absl::StrAppend(&line, ", ended by signal ", -error.exit_status());
    else
      absl::StrAppend(&line, ", exit status ", error.exit_status());
    if (!error.file().empty())
      absl::StrAppend(&line, ", ", error.file(), ":", error.line());
  }
  AppendField("build", absl::StrCat(build.name(), ": ", line, build.late() ? ", late" : ""), out);
  if (!build.has_error())
    return;
  AppendField("first error", build.error().first_error(), out);
  AppendTail("build stdout", build.error().stdout_tail(), out);
  AppendTail("build stderr", build.error().stderr_tail(), out);
}

std::string GpuText(const v1::GpuState& state) {
  std::vector<std::string> parts;
  if (state.has_sm_clock_mhz())
    parts.push_back(absl::StrCat(state.sm_clock_mhz(), " MHz"));
  if (state.has_memory_clock_mhz())
    parts.push_back(absl::StrCat("memory ", state.memory_clock_mhz(), " MHz"));
  if (state.has_throttle_reasons())
    parts.push_back(absl::StrCat("throttle reasons 0x", absl::Hex(state.throttle_reasons())));
  if (state.has_temperature_c())
    parts.push_back(absl::StrCat(state.temperature_c(), " C"));
  if (state.has_power_w())
    parts.push_back(absl::StrFormat("%.0f W", state.power_w()));
  if (state.has_ecc_uncorrected())
    parts.push_back(absl::StrCat("uncorrected ECC errors ", state.ecc_uncorrected()));
  if (state.has_memory_used_bytes())
    parts.push_back(absl::StrCat(FormatBytes(state.memory_used_bytes()), " in use"));
  return absl::StrJoin(parts, ", ");
}

void AppendGpu(const v1::Evidence& evidence, std::string* out) {
  if (evidence.has_gpu_before())
    AppendField("GPU before", GpuText(evidence.gpu_before()), out);
  if (evidence.has_gpu_after())
    AppendField("GPU after", GpuText(evidence.gpu_after()), out);
  AppendField("foreign", evidence.foreign_processes(), out);
  AppendField("Xid", absl::StrJoin(evidence.xids(), ", "), out);
  if (evidence.quietness().baseline_us() > 0) {
    AppendField(
        "quiet",
        absl::StrFormat("sentinel %.0f us, usually %.0f us, after %.0f ms",
                        evidence.quietness().sentinel_us(), evidence.quietness().baseline_us(),
                        evidence.quietness().settle_ms()),
        out);
  }
}

void AppendEvidence(const v1::Evidence& evidence, std::string* out) {
  std::string where = evidence.worker_id();
  if (!evidence.device_id().empty())
    absl::StrAppend(&where, ", device ", evidence.device_id(), " (", evidence.gpu_class(), ")");
  AppendField("worker", where, out);
  AppendField("certificate", evidence.certificate(), out);
  AppendField("toolchain", evidence.toolchain_digest(), out);
  if (evidence.has_exit_status())
    AppendField("exit status", absl::StrCat(evidence.exit_status()), out);
  if (evidence.has_signal())
    AppendField("signal", absl::StrCat(evidence.signal()), out);
  if (evidence.memory_peak_bytes() > 0) {
    AppendField("memory peak",
                absl::StrCat(FormatBytes(evidence.memory_peak_bytes()),
                             evidence.memory_limit_hit() ? ", limit hit" : ""),
                out);
  }
  AppendGpu(evidence, out);
  AppendField("sandbox", absl::StrJoin(evidence.sandbox(), ", "), out);
  for (const std::string& attempt : evidence.earlier_attempts())
    AppendField("earlier", attempt, out);
  for (const std::string& suspicion : evidence.suspicions())
    AppendField("suspicion", suspicion, out);
  AppendText("error", evidence.error_text(), out);
  AppendTail("stdout", evidence.stdout_tail(), out);
  AppendTail("stderr", evidence.stderr_tail(), out);
}

std::string TimesText(const v1::StageTimes& times) {
  std::vector<std::string> parts;
  const auto add = [&parts](absl::string_view name, double ms) {
    if (ms > 0)
      parts.push_back(absl::StrCat(name, " ", FormatStageSeconds(ms), " s"));
  };
  add("queued", times.queued_compile_ms());
  add("compile", times.compile_ms());
  add("queued", times.queued_run_ms());
  add("prepare", times.prepare_ms());
  add("verify", times.verify_ms());
  add("measure", times.measure_ms());
  add("lock wait", times.lock_wait_ms());
  add("frozen", times.frozen_ms());
  add("total", times.total_ms());
  return absl::StrJoin(parts, ", ");
}

std::string LocksText(const v1::StageTimes& times) {
  std::vector<std::string> parts;
  for (const v1::LockTime& lock : times.locks()) {
    parts.push_back(absl::StrCat(lock.operation(), " held ", FormatStageSeconds(lock.held_ms()),
                                 " s after ", FormatMs(lock.wait_ms()), " ms"));
  }
  return absl::StrJoin(parts, ", ");
}

std::string PolicyText(const v1::Policy& policy) {
  std::string text =
      absl::StrFormat("%s, atol %g, rtol %g", policy.name(), policy.atol(), policy.rtol());
  for (const v1::DtypeTolerance& row : policy.tolerances())
    absl::StrAppend(&text, "; ", row.dtype(), absl::StrFormat(" %g, %g", row.atol(), row.rtol()));
  if (!policy.precision().empty())
    absl::StrAppend(&text, "; precision ", policy.precision(), " within ", policy.precision_slack(),
                    " times the reference's own error");
  return text;
}

}  // namespace

std::string RenderRecord(const v1::EvaluationRecord& record) {
  std::string out;
  const v1::Verdict& verdict = record.verdict();
  AppendField("evaluation", record.evaluation_id(), &out);
  AppendField("task",
              absl::StrCat(record.task_name(), " (", record.task_version().substr(0, 12), ")"),
              &out);
  AppendField(
      "candidate",
      absl::StrCat(record.candidate_name(), " (", record.candidate_sha256().substr(0, 12), ")"),
      &out);
  AppendField("policy", PolicyText(record.policy()), &out);
  AppendField("submitted", FormatUnixMs(record.submitted_unix_ms()), &out);
  if (!record.has_verdict()) {
    AppendField("stage", StageName(record.stage()), &out);
    if (record.queue_position() > 0)
      AppendField("place", absl::StrCat(record.queue_position(), " in the queue"), &out);
    return out;
  }
  AppendField("ended", FormatUnixMs(record.ended_unix_ms()), &out);
  AppendField("verdict", VerdictName(verdict.kind()), &out);
  AppendField("reason", verdict.reason(), &out);
  if (verdict.blame() != v1::BLAME_UNSPECIFIED) {
    AppendField("decided in",
                absl::StrCat(StageName(verdict.stage()), ", fault of ", BlameName(verdict.blame()),
                             ", attempt ", record.attempt()),
                &out);
  }
  if (verdict.has_measurement())
    AppendMeasurement(verdict.measurement(), &out);
  if (verdict.has_unconfirmed())
    AppendUnconfirmed(verdict.unconfirmed(), &out);
  if (verdict.correctness().calls_compared() > 0)
    AppendCorrectness(verdict.correctness(), &out);
  if (verdict.has_task_report())
    out.append(RenderTaskReport(verdict.task_report()));
  for (const v1::BuildRecord& build : verdict.builds())
    AppendBuild(build, &out);
  AppendField("times", TimesText(record.times()), &out);
  AppendField("lock", LocksText(record.times()), &out);
  if (verdict.has_evidence())
    AppendEvidence(verdict.evidence(), &out);
  return out;
}

absl::StatusOr<std::string> ToJsonLine(const google::protobuf::Message& message) {
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json);
  if (!status.ok())
    return absl::InternalError(
        absl::StrCat("cannot write the record as JSON: ", status.ToString()));
  return json;
}

}  // namespace pike::cli
