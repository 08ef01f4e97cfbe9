#pragma once

#include <string>
#include <vector>

#include "pike/v1/evaluation.pb.h"

namespace pike::cli {

// One line of the final table. `record` is empty if the service refused the candidate; `refusal`
// then says why.
struct ResultRow {
  std::string task;
  std::string candidate;
  v1::EvaluationRecord record;
  std::string refusal;
};

struct ResultStyle {
  bool has_colour = false;
  // Columns of the terminal; 0: no limit. Where the table is wider, stage times are left out first,
  // then ids, then names are cut.
  size_t width_max = 0;
};

// The table, the reasons below it, each with the evaluation's id, why tasks are degenerate, a
// summary line and the clamped means over tasks. A task that
// all rows share stands above the table. All text is escaped.
std::string RenderResults(const std::vector<ResultRow>& rows, const ResultStyle& style);

// "valid 3 of 4, 1 incorrect; geometric mean speedup of valid ones 1.23x".
std::string SummaryLine(const std::vector<ResultRow>& rows);

// What went wrong in one line: the reason, with the first build error where one exists. Empty for
// `valid`.
std::string ReasonLine(const v1::Verdict& verdict);

// Largest absolute error over all outputs; empty before a call was compared.
std::string MaxErrorText(const v1::Verdict& verdict);

}  // namespace pike::cli
