#include "cli/result_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include "cli/console.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/task_report_text.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

constexpr size_t kNameWidthMax = 44;
constexpr size_t kNameWidthMin = 16;
constexpr int kSpareMax = 6;  // of all fields
constexpr size_t kReasonCharsMax = 600;

std::string VerdictText(const ResultRow& row) {
  if (row.record.has_verdict())
    return VerdictName(row.record.verdict().kind());
  if (!row.refusal.empty())
    return "refused";
  return row.record.evaluation_id().empty() ? "not submitted" : "unfinished";
}

// What the final table can show, in this order.
struct Field {
  Table::Column column;
  std::string (*text)(const ResultRow& row);
  // Of two fields the one with the higher number is left out first where room is short; 0: never.
  int spare = 0;
};

template <double (v1::StageTimes::*kTime)() const>
std::string StageText(const ResultRow& row) {
  return FormatStageSeconds((row.record.times().*kTime)());
}

std::string WaitedText(const ResultRow& row) {
  const v1::StageTimes& times = row.record.times();
  return FormatStageSeconds(times.queued_compile_ms() + times.queued_run_ms() +
                            times.lock_wait_ms());
}

std::string SpeedupText(const ResultRow& row) {
  const v1::Verdict& verdict = row.record.verdict();
  return verdict.has_measurement() ? FormatSpeedup(verdict.measurement().speedup()) : "";
}

std::string LatencyText(const ResultRow& row) {
  const v1::Verdict& verdict = row.record.verdict();
  return verdict.has_measurement() ? FormatMs(verdict.measurement().candidate().mean_ms()) : "";
}

std::string ReferenceLatencyText(const ResultRow& row) {
  const v1::Verdict& verdict = row.record.verdict();
  return verdict.has_measurement() ? FormatMs(verdict.measurement().reference().mean_ms()) : "";
}

std::vector<Field> Fields(size_t name_width) {
  constexpr auto kRight = Table::Align::kRight;
  return {
      {{"task", Table::Align::kLeft, name_width, /*is_cut_at_start=*/true},
       [](const ResultRow& row) { return EscapeLine(row.task); }},
      {{"candidate", Table::Align::kLeft, name_width, /*is_cut_at_start=*/true},
       [](const ResultRow& row) { return EscapeLine(row.candidate); }},
      {{"verdict"}, VerdictText},
      {{"task is"},
       [](const ResultRow& row) {
         const bool is_marked = IsDegenerate(row.record.verdict().task_report());
         return std::string(is_marked ? "degenerate" : "");
       }},
      {{"speedup", kRight}, SpeedupText},
      {{"ms", kRight}, LatencyText},
      {{"ref ms", kRight}, ReferenceLatencyText},
      {{"max error", kRight},
       [](const ResultRow& row) { return MaxErrorText(row.record.verdict()); }},
      {{"compile s", kRight}, StageText<&v1::StageTimes::compile_ms>, 3},
      {{"prepare s", kRight}, StageText<&v1::StageTimes::prepare_ms>, 5},
      {{"verify s", kRight}, StageText<&v1::StageTimes::verify_ms>, 6},
      {{"measure s", kRight}, StageText<&v1::StageTimes::measure_ms>, 4},
      {{"waited s", kRight}, WaitedText, 2},
      {{"total s", kRight}, StageText<&v1::StageTimes::total_ms>},
      {{"id"}, [](const ResultRow& row) { return EscapeLine(row.record.evaluation_id()); }, 1},
  };
}

// The table of the fields up to `spare_max`.
std::string RenderFields(const std::vector<ResultRow>& rows, std::vector<Field> fields,
                         int spare_max, bool has_colour) {
  std::erase_if(fields, [spare_max](const Field& field) { return field.spare > spare_max; });
  std::vector<Table::Column> columns;
  for (const Field& field : fields)
    columns.push_back(field.column);
  Table table(std::move(columns));
  for (const ResultRow& row : rows) {
    std::vector<std::string> cells;
    for (const Field& field : fields) {
      const std::string text = field.text(row);
      const bool is_coloured = has_colour && field.text == VerdictText;
      cells.push_back(is_coloured ? ColourVerdict(row.record.verdict().kind(), text) : text);
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

bool Fits(const std::string& text, size_t width_max) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  return width_max == 0 || std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
           return DisplayWidth(line) <= width_max;
         });
}

std::string RenderTable(const std::vector<ResultRow>& rows, bool has_task,
                        const ResultStyle& style) {
  const auto render = [&](size_t name_width, int spare_max) {
    std::vector<Field> fields = Fields(name_width);
    if (!has_task)
      fields.erase(fields.begin());
    return RenderFields(rows, std::move(fields), spare_max, style.has_colour);
  };
  for (int spare_max = kSpareMax; spare_max > 0; spare_max--) {
    const std::string text = render(kNameWidthMax, spare_max);
    if (Fits(text, style.width_max))
      return text;
  }
  size_t name_width = kNameWidthMax;
  while (name_width > kNameWidthMin && !Fits(render(name_width, 0), style.width_max))
    name_width -= 2;
  return render(name_width, 0);
}

std::string Reasons(const std::vector<ResultRow>& rows, bool has_task) {
  std::string out;
  for (const ResultRow& row : rows) {
    const std::string reason =
        row.refusal.empty() ? ReasonLine(row.record.verdict()) : EscapeLine(row.refusal);
    if (reason.empty())
      continue;
    const std::string id = EscapeLine(row.record.evaluation_id());
    absl::StrAppend(&out, "  ", id, id.empty() ? "" : "  ",
                    has_task ? absl::StrCat(EscapeLine(row.task), " / ") : "",
                    EscapeLine(row.candidate), ": ", VerdictText(row), ": ", reason, "\n");
  }
  return out.empty() ? out : absl::StrCat("\nReasons (`pike get ID` shows the evidence)\n", out);
}

// Why tasks are marked, one line for each.
std::string DegenerateTasks(const std::vector<ResultRow>& rows) {
  std::map<std::string, std::string> lines;
  for (const ResultRow& row : rows) {
    const v1::TaskReport& report = row.record.verdict().task_report();
    if (IsDegenerate(report))
      lines[EscapeLine(row.task)] =
          CutToWidth(EscapeLine(absl::StrJoin(report.degenerate(), "; ")), kReasonCharsMax);
  }
  std::string out;
  for (const auto& [task, line] : lines)
    absl::StrAppend(&out, "  ", task, ": ", line, "\n");
  return out.empty() ? out
                     : absl::StrCat(
                           "\nDegenerate tasks: a program that does not compute them can "
                           "pass (`pike task check`)\n",
                           out);
}

// A task's best valid speedup, at least 1.
struct TaskBest {
  double speedup = 1;
  bool is_degenerate = false;
};

std::string MeanText(const std::map<std::string, TaskBest>& tasks, bool is_verified) {
  double log_sum = 0;
  size_t count = 0;
  for (const auto& [name, best] : tasks) {
    if (is_verified && best.is_degenerate)
      continue;
    log_sum += std::log(best.speedup);
    count++;
  }
  if (count == 0)
    return "none";
  return absl::StrCat(FormatSpeedup(std::exp(log_sum / static_cast<double>(count))), " over ",
                      count, count == 1 ? " task" : " tasks");
}

// The clamped means over tasks; empty where there is one that can judge.
std::string ClampedLine(const std::vector<ResultRow>& rows) {
  std::map<std::string, TaskBest> tasks;
  for (const ResultRow& row : rows) {
    const v1::Verdict& verdict = row.record.verdict();
    const bool is_decided = row.record.has_verdict() &&
                            verdict.kind() != v1::VERDICT_KIND_INFRA_ERROR &&
                            verdict.kind() != v1::VERDICT_KIND_CANCELLED;
    if (!is_decided)
      continue;
    TaskBest& best = tasks[row.task];
    best.is_degenerate = best.is_degenerate || IsDegenerate(verdict.task_report());
    if (verdict.kind() == v1::VERDICT_KIND_VALID)
      best.speedup = std::max(best.speedup, verdict.measurement().speedup());
  }
  const auto marked = std::count_if(tasks.begin(), tasks.end(),
                                    [](const auto& task) { return task.second.is_degenerate; });
  if (tasks.size() < 2 && marked == 0)
    return "";
  const std::string line = absl::StrCat(
      "clamped geometric mean (best valid speedup of each task, at least 1; 1 where "
      "none is valid) ",
      MeanText(tasks, /*is_verified=*/false));
  return marked == 0 ? absl::StrCat(line, "\n")
                     : absl::StrCat(line, ", verified ", MeanText(tasks, /*is_verified=*/true),
                                    " that are not degenerate\n");
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

std::string RenderResults(const std::vector<ResultRow>& rows, const ResultStyle& style) {
  const bool has_task = std::any_of(rows.begin(), rows.end(), [&rows](const ResultRow& row) {
    return row.task != rows.front().task;
  });
  std::string out;
  if (!has_task && !rows.empty())
    out = absl::StrCat("task ", EscapeLine(rows.front().task), "\n\n");
  return absl::StrCat(out, RenderTable(rows, has_task, style), Reasons(rows, has_task),
                      DegenerateTasks(rows), "\n", SummaryLine(rows), "\n", ClampedLine(rows));
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
