#include "compile_worker/core/outcome.h"

#include <algorithm>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "common/base/text.h"

namespace pike::compile_worker {
namespace {

// What the hook raises, as stock torch does. Looked for only to be more careful: a candidate that
// hides or forges it changes nothing but where its own failure is decided.
constexpr char kBuildErrorText[] = "Error building extension";
constexpr size_t kReasonBytesMax = 400;

const BuildFact* FindFailed(const std::vector<BuildFact>& builds) {
  const auto it = std::find_if(builds.begin(), builds.end(), [](const BuildFact& build) {
    return build.result != BuildResult::kBuilt && build.result != BuildResult::kInfra;
  });
  return it == builds.end() ? nullptr : &*it;
}

std::string OneLine(const std::string& text) {
  return EscapeLine(text.substr(0, kReasonBytesMax));
}

std::string BuildReason(const BuildFact& build) {
  std::string where;
  if (!build.file.empty() && build.line > 0)
    where = absl::StrCat(" (", build.file, ":", build.line, ")");
  return OneLine(
      absl::StrCat("build of extension '", build.name, "' failed: ", build.first_error, where));
}

// The last line of a traceback is the exception itself.
std::string ErrorLine(const ImportFacts& facts) {
  std::string text = facts.error_text;
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  const std::string last = text.substr(text.find_last_of('\n') + 1);
  if (last.empty() || absl::StartsWith(last, facts.error_type))
    return OneLine(last.empty() ? facts.error_type : last);
  return OneLine(absl::StrCat(facts.error_type, ": ", last));
}

Outcome ConcludeImportError(const ImportFacts& facts) {
  const BuildFact* failed = FindFailed(facts.builds);
  if (failed == nullptr || !absl::StrContains(facts.error_text, kBuildErrorText))
    return {Conclusion::kInconclusive, absl::StrCat("import raised ", ErrorLine(facts))};
  Conclusion conclusion = Conclusion::kLoadError;
  if (failed->result == BuildResult::kTimeout)
    conclusion = Conclusion::kTimeout;
  else if (failed->result == BuildResult::kOutOfMemory)
    conclusion = Conclusion::kOutOfMemory;
  return {conclusion, BuildReason(*failed)};
}

Outcome ConcludeDeath(const ImportFacts& facts) {
  if (facts.is_timed_out)
    return {Conclusion::kInconclusive, "import did not end in time"};
  if (facts.is_memory_limit_hit)
    return {Conclusion::kInconclusive, "import exceeded the memory limit"};
  if (facts.signal != 0)
    return {Conclusion::kInconclusive, absl::StrCat("import was ended by signal ", facts.signal)};
  return {Conclusion::kInconclusive,
          absl::StrCat("the process exited with status ", facts.exit_status, " during import")};
}

}  // namespace

Outcome Conclude(const ImportFacts& facts) {
  const auto infra_build =
      std::find_if(facts.builds.begin(), facts.builds.end(),
                   [](const BuildFact& build) { return build.result == BuildResult::kInfra; });
  const bool has_infra_build = infra_build != facts.builds.end();
  switch (facts.report) {
    case ImportReport::kLoaded:
      return {Conclusion::kCompiled, ""};
    case ImportReport::kNotPython:
      return {Conclusion::kUnparsable, absl::StrCat("not Python: ", ErrorLine(facts))};
    case ImportReport::kNoEntry:
      return {Conclusion::kUnparsable, "defines neither ModelNew nor Model"};
    case ImportReport::kHarness:
      return {Conclusion::kInconclusive, absl::StrCat("harness failed: ", ErrorLine(facts))};
    case ImportReport::kImportError:
      if (has_infra_build)
        return {Conclusion::kInfra, BuildReason(*infra_build)};
      return ConcludeImportError(facts);
    case ImportReport::kNone:
      if (has_infra_build)
        return {Conclusion::kInfra, BuildReason(*infra_build)};
      return ConcludeDeath(facts);
  }
  return {Conclusion::kInfra, "unknown report"};
}

}  // namespace pike::compile_worker
