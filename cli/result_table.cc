#include "cli/result_table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "cli/console.h"
#include "cli/format.h"
#include "cli/table.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

constexpr size_t kNameWidthMax = 44;
constexpr size_t kReasonCharsMax = 600;

std::string VerdictText(const ResultRow& row) {
  if (row.record.has_verdict())
    return VerdictName(row.record.verdict().kind());
  if (!row.refusal.empty())
    return "refused";
  return row.record.evaluation_id().empty() ? "not submitted" : "unfinished";
}

std::vector<std::string> CellsOf(const ResultRow& row, bool has_colour) {
  const v1::Verdict& verdict = row.record.verdict();
  const v1::StageTimes& times = row.record.times();
  std::string verdict_text = VerdictText(row);
  if (has_colour)
    verdict_text = ColourVerdict(verdict.kind(), verdict_text);
  std::string speedup;
  std::string candidate_ms;
  std::string reference_ms;
  if (verdict.has_measurement()) {
    speedup = FormatSpeedup(verdict.measurement().speedup());
    candidate_ms = FormatMs(verdict.measurement().candidate().mean_ms());
    reference_ms = FormatMs(verdict.measurement().reference().mean_ms());
  }
  return {
      EscapeLine(row.task),
      EscapeLine(row.candidate),
      verdict_text,
      speedup,
      candidate_ms,
      reference_ms,
      MaxErrorText(verdict),
      FormatStageSeconds(times.compile_ms()),
      FormatStageSeconds(times.prepare_ms()),
      FormatStageSeconds(times.verify_ms()),
      FormatStageSeconds(times.measure_ms()),
      FormatStageSeconds(times.queued_compile_ms() + times.queued_run_ms() + times.lock_wait_ms()),
      FormatStageSeconds(times.total_ms())};
}

std::string Reasons(const std::vector<ResultRow>& rows) {
  std::string out;
  for (const ResultRow& row : rows) {
    const std::string reason =
        row.refusal.empty() ? ReasonLine(row.record.verdict()) : EscapeLine(row.refusal);
    if (reason.empty())
      continue;
    absl::StrAppend(&out, "  ", EscapeLine(row.task), " / ", EscapeLine(row.candidate), ": ",
                    VerdictText(row), ": ", reason, "\n");
  }
  return out.empty() ? out : absl::StrCat("\nReasons\n", out);
}

}  // namespace

std::string MaxErrorText(const v1::Verdict& verdict) {
  if (!verdict.has_correctness() || verdict.correctness().outputs().empty())
    return "";
  double error_max = 0;
  for (const v1::OutputError& output : verdict.correctness().outputs()) {
    if (std::isnan(output.max_abs_error()))
      return "nan";
    error_max = std::max(error_max, output.max_abs_error());
  }
  return FormatErrorValue(error_max);
}

std::string ReasonLine(const v1::Verdict& verdict) {
  std::string reason = EscapeLine(verdict.reason());
  for (const v1::BuildRecord& build : verdict.builds()) {
    if (!build.has_error() || build.error().first_error().empty())
      continue;
    const std::string first_error = EscapeLine(build.error().first_error());
    if (absl::StrContains(reason, first_error))
      break;
    absl::StrAppend(&reason, reason.empty() ? "" : "; ", EscapeLine(build.error().tool()), ": ");
    if (!build.error().file().empty())
      absl::StrAppend(&reason, EscapeLine(build.error().file()), ":", build.error().line(), ": ");
    reason += first_error;
    break;
  }
  return CutToWidth(reason, kReasonCharsMax);
}

std::string RenderResults(const std::vector<ResultRow>& rows, bool has_colour) {
  using Align = Table::Align;
  Table table({{"task", Align::kLeft, kNameWidthMax, /*is_cut_at_start=*/true},
               {"candidate", Align::kLeft, kNameWidthMax, /*is_cut_at_start=*/true},
               {"verdict"},
               {"speedup", Align::kRight},
               {"ms", Align::kRight},
               {"ref ms", Align::kRight},
               {"max error", Align::kRight},
               {"compile s", Align::kRight},
               {"prepare s", Align::kRight},
               {"verify s", Align::kRight},
               {"measure s", Align::kRight},
               {"waited s", Align::kRight},
               {"total s", Align::kRight}});
  for (const ResultRow& row : rows)
    table.AddRow(CellsOf(row, has_colour));
  return absl::StrCat(table.Render(), Reasons(rows), "\n", SummaryLine(rows), "\n");
}

std::string SummaryLine(const std::vector<ResultRow>& rows) {
  std::map<std::string, size_t> counts;
  double log_sum = 0;
  size_t measured = 0;
  for (const ResultRow& row : rows) {
    counts[VerdictText(row)]++;
    const v1::Verdict& verdict = row.record.verdict();
    if (verdict.kind() == v1::VERDICT_KIND_VALID && verdict.measurement().speedup() > 0) {
      log_sum += std::log(verdict.measurement().speedup());
      measured++;
    }
  }
  std::string line = absl::StrCat("valid ", counts["valid"], " of ", rows.size());
  for (const auto& [verdict, count] : counts) {
    if (verdict != "valid")
      absl::StrAppend(&line, ", ", count, " ", verdict);
  }
  if (measured > 0) {
    const double mean = std::exp(log_sum / static_cast<double>(measured));
    absl::StrAppend(&line, "; geometric mean speedup of the valid ones ", FormatSpeedup(mean));
  }
  return line;
}

}  // namespace pike::cli
