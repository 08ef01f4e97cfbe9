#include "cli/task_report_text.h"

#include <algorithm>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include "cli/format.h"
#include "cli/table.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

constexpr size_t kTaskWidthMax = 44;
constexpr size_t kInputsShown = 4;

std::string Percent(double share) {
  if (share > 0 && share < 0.001)
    return "< 0.1 %";
  // Rounding must not make a task look worse than it is.
  if (share < 1 && share > 0.999)
    return "> 99.9 %";
  return absl::StrFormat("%.3g %%", 100 * share);
}

std::string InputsText(const v1::TaskReport& report, size_t count_max) {
  std::vector<std::string> parts;
  for (const v1::InputDependence& input : report.inputs()) {
    if (parts.size() >= count_max) {
      parts.emplace_back("...");
      break;
    }
    parts.push_back(absl::StrCat(EscapeLine(input.path()), " ", Percent(input.changed())));
  }
  return absl::StrJoin(parts, ", ");
}

std::string PrecisionsText(const v1::TaskReport& report) {
  std::vector<std::string> parts;
  for (const v1::PrecisionError& row : report.precisions())
    parts.push_back(absl::StrCat(EscapeLine(row.precision()), " ", FormatErrorValue(row.error())));
  return absl::StrJoin(parts, ", ");
}

std::string PrecisionText(const v1::TaskReport& report, absl::string_view name) {
  for (const v1::PrecisionError& row : report.precisions()) {
    if (row.precision() == name)
      return FormatErrorValue(row.error());
  }
  return "";
}

std::string MemoryText(const v1::TaskReport& report) {
  return report.device_bytes_peak() > 0 ? FormatBytes(report.device_bytes_peak()) : "";
}

void AppendLine(absl::string_view name, absl::string_view text, std::string* out) {
  if (!text.empty())
    absl::StrAppend(out, absl::StrFormat("%-12s ", name), text, "\n");
}

// As common/inside/task_check.py names it.
bool IsUnchecked(const v1::TaskReport& report) {
  return std::any_of(
      report.not_checked().begin(), report.not_checked().end(),
      [](const std::string& line) { return absl::StartsWith(line, "everything: "); });
}

std::string JudgeText(const ResultRow& row) {
  const v1::Verdict& verdict = row.record.verdict();
  if (IsDegenerate(verdict.task_report()))
    return "no";
  if (verdict.kind() == v1::VERDICT_KIND_VALID && verdict.has_task_report())
    return IsUnchecked(verdict.task_report()) ? "?" : "yes";
  return HasOtherFault(row) ? "?" : "no";
}

std::string VerdictText(const ResultRow& row) {
  if (!row.refusal.empty())
    return "refused";
  return row.record.has_verdict() ? VerdictName(row.record.verdict().kind()) : "unfinished";
}

void AppendLines(const char* title, const std::vector<std::string>& lines, std::string* out) {
  if (lines.empty())
    return;
  absl::StrAppend(out, "\n", title, "\n");
  for (const std::string& line : lines)
    absl::StrAppend(out, "  ", line, "\n");
}

Table MakeTable() {
  constexpr auto kRight = Table::Align::kRight;
  return Table({{"task", Table::Align::kLeft, kTaskWidthMax, /*is_cut_at_start=*/true},
                {"can judge"},
                {"reference"},
                {"deterministic"},
                {"depends on"},
                {"frozen", kRight},
                {"zeros", kRight},
                {"constant", kRight},
                {"copy", kRight},
                {"fp32", kRight},
                {"tf32", kRight},
                {"fp16", kRight},
                {"bf16", kRight},
                {"ms", kRight},
                {"input", kRight},
                {"output", kRight},
                {"GPU memory", kRight}});
}

void AddRow(const ResultRow& row, Table* table) {
  std::vector<std::string> cells = {EscapeLine(row.task), JudgeText(row), VerdictText(row)};
  if (row.record.verdict().has_task_report()) {
    const v1::TaskReport& report = row.record.verdict().task_report();
    for (std::string& cell : std::vector<std::string>{
             report.is_deterministic() ? "yes" : "no", InputsText(report, kInputsShown),
             Percent(report.frozen_passes()), Percent(report.zeros_passes()),
             Percent(report.constant_passes()), Percent(report.copy_passes()),
             PrecisionText(report, "fp32"), PrecisionText(report, "tf32"),
             PrecisionText(report, "fp16"), PrecisionText(report, "bf16"),
             FormatMs(report.reference_ms()), FormatBytes(report.input_bytes()),
             FormatBytes(report.output_bytes()), MemoryText(report)})
      cells.push_back(std::move(cell));
  }
  constexpr size_t kColumns = 17;
  cells.resize(kColumns);
  table->AddRow(std::move(cells));
}

}  // namespace

bool IsDegenerate(const v1::TaskReport& report) {
  return report.degenerate_size() > 0;
}

std::string RenderTaskReport(const v1::TaskReport& report) {
  std::string out;
  for (const std::string& line : report.degenerate())
    AppendLine("degenerate", EscapeLine(line), &out);
  AppendLine("depends on", InputsText(report, SIZE_MAX), &out);
  AppendLine(
      "would pass",
      absl::StrCat("frozen ", Percent(report.frozen_passes()), ", zeros ",
                   Percent(report.zeros_passes()), ", constant ", Percent(report.constant_passes()),
                   ", copy ", Percent(report.copy_passes()), " of elements",
                   report.is_deterministic() ? "" : "; the reference is not deterministic"),
      &out);
  AppendLine("precisions", PrecisionsText(report), &out);
  AppendLine(
      "data",
      absl::StrCat(
          "input ", FormatBytes(report.input_bytes()), ", output ",
          FormatBytes(report.output_bytes()),
          report.device_bytes_peak() > 0 ? absl::StrCat(", on the GPU ", MemoryText(report)) : ""),
      &out);
  for (const std::string& line : report.not_checked())
    AppendLine("not checked", EscapeLine(line), &out);
  return out;
}

std::string RenderTaskChecks(const std::vector<ResultRow>& rows) {
  Table table = MakeTable();
  std::vector<std::string> ways;
  std::vector<std::string> left_out;
  std::vector<std::string> reasons;
  size_t judges = 0;
  for (const ResultRow& row : rows) {
    AddRow(row, &table);
    const v1::TaskReport& report = row.record.verdict().task_report();
    const std::string task = EscapeLine(row.task);
    for (const std::string& line : report.degenerate())
      ways.push_back(absl::StrCat(task, ": ", EscapeLine(line)));
    for (const std::string& line : report.not_checked())
      left_out.push_back(absl::StrCat(task, ": ", EscapeLine(line)));
    const std::string reason =
        row.refusal.empty() ? ReasonLine(row.record.verdict()) : EscapeLine(row.refusal);
    if (!reason.empty())
      reasons.push_back(absl::StrCat(task, ": ", reason));
    judges += JudgeText(row) == "yes" ? 1 : 0;
  }
  std::string out = table.Render();
  AppendLines("Degenerate: programs that do not compute this could pass", ways, &out);
  AppendLines("Reasons", reasons, &out);
  AppendLines("Not checked", left_out, &out);
  absl::StrAppend(&out, "\n", judges, " of ", rows.size(), " tasks can judge\n");
  return out;
}

bool CanAllJudge(const std::vector<ResultRow>& rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const ResultRow& row) { return JudgeText(row) == "yes"; });
}

bool HasOtherFault(const ResultRow& row) {
  if (!row.record.has_verdict())
    return true;
  const v1::Verdict& verdict = row.record.verdict();
  return verdict.kind() == v1::VERDICT_KIND_CANCELLED ||
         (verdict.kind() == v1::VERDICT_KIND_INFRA_ERROR && verdict.blame() != v1::BLAME_TASK);
}

}  // namespace pike::cli
