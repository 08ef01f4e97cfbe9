#pragma once

#include <string>
#include <vector>

#include "cli/result_table.h"
#include "pike/v1/measurement.pb.h"

namespace pike::cli {

// Whether a wrong program could pass.
bool IsDegenerate(const v1::TaskReport& report);

// Fields of one report for `pike get`, a line each. All text is escaped.
std::string RenderTaskReport(const v1::TaskReport& report);

// The table of `pike task check`: rows are evaluations of the tasks' own references. Below it the
// ways in which wrong programs could pass, what was not checked, what went wrong, and a summary.
std::string RenderTaskChecks(const std::vector<ResultRow>& rows);

// Whether every task can judge: its reference is valid and nothing is degenerate.
bool CanAllJudge(const std::vector<ResultRow>& rows);

// Whether a row says that something else than a task kept its check from an end.
bool HasOtherFault(const ResultRow& row);

}  // namespace pike::cli
