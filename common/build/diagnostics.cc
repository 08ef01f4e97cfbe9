#include "common/build/diagnostics.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include <absl/strings/match.h>

#include "common/base/text.h"

namespace pike::build {
namespace {

constexpr size_t kErrorLineBytesMax = 500;
constexpr uint32_t kLineMax = 100'000'000;

struct Place {
  std::string file;
  uint32_t line = 0;
};

absl::string_view TakeLine(absl::string_view* rest) {
  const size_t end = rest->find('\n');
  const absl::string_view line = rest->substr(0, end);
  rest->remove_prefix(end == absl::string_view::npos ? rest->size() : end + 1);
  return line;
}

bool ContainsAny(absl::string_view line, std::initializer_list<absl::string_view> needles) {
  return std::any_of(needles.begin(), needles.end(),
                     [line](absl::string_view needle) { return absl::StrContains(line, needle); });
}

// "main.cpp:3:5: error: ...", "cuda.cu(7): error: ...", "cuda.cu(7): error #20: ...",
// "nvcc fatal   : ...", "ptxas error   : ...", "ld: cannot find -lx", "undefined reference to".
bool IsErrorLine(absl::string_view line) {
  return ContainsAny(line, {": error: ", ": error:", ": fatal error: ", "): error #", "nvcc fatal ",
                            "ptxas error ", "ptxas fatal ", "nvlink error ", "error: "});
}

bool IsLinkerErrorLine(absl::string_view line) {
  return ContainsAny(line, {"undefined reference to", "cannot find -l", "multiple definition of",
                            "ld: cannot find", "file not recognized", "cannot open output file"});
}

// "collect2: error: ld returned 1 exit status" says only that a line before it is the error.
bool IsSummaryLine(absl::string_view line) {
  return absl::StartsWith(line, "collect2:");
}

// The place of `file` in `line` if a line number follows its name: "main.cpp:12:" or "cuda.cu(7)".
std::optional<Place> FindPlace(absl::string_view line, const std::string& file) {
  size_t start = 0;
  while (true) {
    const size_t at = line.find(file, start);
    if (at == absl::string_view::npos)
      return std::nullopt;
    start = at + 1;
    const bool is_whole_name = at == 0 || line[at - 1] == '/' || line[at - 1] == ' ';
    size_t digit = at + file.size();
    if (!is_whole_name || digit >= line.size() || (line[digit] != ':' && line[digit] != '('))
      continue;
    ++digit;
    uint32_t number = 0;
    for (; digit < line.size() && line[digit] >= '0' && line[digit] <= '9'; ++digit)
      number = std::min(kLineMax, number * 10 + static_cast<uint32_t>(line[digit] - '0'));
    if (number > 0)
      return Place{file, number};
  }
}

std::optional<Place> FindAnyPlace(absl::string_view line, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::optional<Place> place = FindPlace(line, file);
    if (place)
      return place;
  }
  return std::nullopt;
}

}  // namespace

Diagnostic FindFirstError(absl::string_view text, const std::vector<std::string>& candidate_files) {
  absl::string_view error_line;
  absl::string_view linker_line;
  std::optional<Place> error_place;
  std::optional<Place> any_place;
  for (absl::string_view rest = text; !rest.empty();) {
    const absl::string_view line = TakeLine(&rest);
    if (error_line.empty() && IsErrorLine(line) && !IsSummaryLine(line)) {
      error_line = line;
      error_place = FindAnyPlace(line, candidate_files);
    }
    if (linker_line.empty() && IsLinkerErrorLine(line))
      linker_line = line;
    if (!any_place)
      any_place = FindAnyPlace(line, candidate_files);
    if (!error_line.empty() && any_place)
      break;
  }
  if (error_line.empty())
    error_line = linker_line;

  Diagnostic diagnostic;
  diagnostic.first_error = EscapeLine(error_line.substr(0, kErrorLineBytesMax));
  const std::optional<Place>& place = error_place ? error_place : any_place;
  if (place && !error_line.empty()) {
    diagnostic.file = place->file;
    diagnostic.line = place->line;
  }
  return diagnostic;
}

}  // namespace pike::build
