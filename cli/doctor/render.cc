#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "cli/doctor/checks.h"

namespace pike::cli {
namespace {

std::string StateText(Finding::State state) {
  switch (state) {
    case Finding::State::kOk:
      return "ok";
    case Finding::State::kMissing:
      return "MISSING";
    case Finding::State::kOptional:
      return "optional";
  }
  return "";
}

int Rank(Finding::State state) {
  return state == Finding::State::kMissing ? 0 : state == Finding::State::kOptional ? 1 : 2;
}

}  // namespace

Finding Ok(std::string what, std::string detail) {
  return {std::move(what), Finding::State::kOk, std::move(detail), ""};
}

Finding Missing(std::string what, std::string detail, std::string fix) {
  return {std::move(what), Finding::State::kMissing, std::move(detail), std::move(fix)};
}

Finding Optional(std::string what, std::string detail, std::string fix) {
  return {std::move(what), Finding::State::kOptional, std::move(detail), std::move(fix)};
}

std::string RenderFindings(const std::vector<Finding>& findings) {
  std::vector<Finding> sorted = findings;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Finding& a, const Finding& b) {
    return Rank(a.state) < Rank(b.state);
  });
  std::string out;
  for (const Finding& finding : sorted) {
    std::string line = absl::StrFormat("%-9s %s", StateText(finding.state), finding.what);
    if (!finding.detail.empty())
      absl::StrAppend(&line, ": ", finding.detail);
    if (!finding.fix.empty())
      absl::StrAppend(&line, " -> ", finding.fix);
    absl::StrAppend(&out, line, "\n");
  }
  const auto missing = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.state == Finding::State::kMissing;
  });
  if (missing == 0)
    return out + "everything that pike needs is here\n";
  return absl::StrCat(out, missing, missing == 1 ? " thing is" : " things are", " missing\n");
}

bool IsHealthy(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.state == Finding::State::kMissing;
  });
}

}  // namespace pike::cli
