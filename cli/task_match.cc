#include "cli/task_match.h"

#include <algorithm>
#include <map>
#include <set>

#include <absl/status/status.h>
#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

namespace pike::cli {
namespace {

constexpr uint64_t kRangeMax = 10'000;
constexpr size_t kNamesShownMax = 8;

std::vector<absl::string_view> PartsOf(absl::string_view path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

// "31_VisionAttention" -> "visionattention".
std::string PlainName(absl::string_view stem) {
  if (NumberOfStem(stem).has_value()) {
    absl::ConsumePrefix(&stem, "task");
    const size_t begin = stem.find_first_not_of("0123456789_-. ");
    stem = begin == absl::string_view::npos ? absl::string_view() : stem.substr(begin);
  }
  return absl::AsciiStrToLower(stem);
}

std::string StemList(const std::vector<std::string>& task_paths) {
  std::vector<std::string> stems;
  for (const std::string& path : task_paths) {
    if (stems.size() == kNamesShownMax) {
      stems.push_back("...");
      break;
    }
    stems.push_back(StemOf(path));
  }
  return absl::StrJoin(stems, ", ");
}

// Where each number and each name leads; the value is the list of tasks that have it.
struct TaskIndex {
  explicit TaskIndex(const std::vector<std::string>& task_paths) {
    for (size_t i = 0; i < task_paths.size(); i++) {
      const std::string stem = StemOf(task_paths[i]);
      if (const auto number = NumberOfStem(stem); number.has_value())
        by_number[*number].push_back(i);
      by_stem[absl::AsciiStrToLower(stem)].push_back(i);
      if (const std::string plain = PlainName(stem); !plain.empty())
        by_plain_name[plain].push_back(i);
    }
  }

  // Tasks a candidate's stem names without a number.
  const std::vector<size_t>* FindByName(absl::string_view stem) const {
    const std::string lower = absl::AsciiStrToLower(stem);
    if (const auto it = by_stem.find(lower); it != by_stem.end())
      return &it->second;
    if (const auto it = by_plain_name.find(lower); it != by_plain_name.end())
      return &it->second;
    return nullptr;
  }

  std::map<uint64_t, std::vector<size_t>> by_number;
  std::map<std::string, std::vector<size_t>> by_stem;
  std::map<std::string, std::vector<size_t>> by_plain_name;
};

absl::Status AmbiguousStatus(absl::string_view wanted, const std::vector<size_t>& found,
                             const std::vector<std::string>& task_paths) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", wanted, "\" fits two tasks: ", task_paths[found[0]], " and ", task_paths[found[1]]));
}

}  // namespace

std::optional<uint64_t> NumberOfStem(absl::string_view stem) {
  if (absl::StartsWithIgnoreCase(stem, "task"))
    stem.remove_prefix(stem.find_first_not_of("_- ", 4) == 5 ? 5 : 4);
  size_t digits = 0;
  while (digits < stem.size() && absl::ascii_isdigit(static_cast<unsigned char>(stem[digits])))
    digits++;
  if (digits < stem.size() && absl::ascii_isalpha(static_cast<unsigned char>(stem[digits])))
    return std::nullopt;
  uint64_t number = 0;
  if (digits == 0 || !absl::SimpleAtoi(stem.substr(0, digits), &number))
    return std::nullopt;
  return number;
}

std::string StemOf(absl::string_view path) {
  const auto parts = PartsOf(path);
  if (parts.empty())
    return "";
  return std::string(absl::StripSuffix(parts.back(), ".py"));
}

std::optional<uint64_t> NumberOfCandidate(absl::string_view path) {
  const auto parts = PartsOf(path);
  if (parts.empty())
    return std::nullopt;
  if (const auto number = NumberOfStem(StemOf(path)); number.has_value())
    return number;
  if (parts.size() < 2)
    return std::nullopt;
  return NumberOfStem(parts[parts.size() - 2]);
}

absl::StatusOr<size_t> FindTask(absl::string_view wanted,
                                const std::vector<std::string>& task_paths) {
  const TaskIndex index(task_paths);
  const std::vector<size_t>* found = nullptr;
  uint64_t number = 0;
  if (absl::SimpleAtoi(wanted, &number)) {
    if (const auto it = index.by_number.find(number); it != index.by_number.end())
      found = &it->second;
  } else {
    found = index.FindByName(StemOf(wanted));
  }
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("no task \"", wanted, "\" among ", task_paths.size(),
                                            " tasks (", StemList(task_paths), ")"));
  }
  if (found->size() > 1)
    return AmbiguousStatus(wanted, *found, task_paths);
  return found->front();
}

absl::StatusOr<MatchResult> MatchCandidates(const std::vector<std::string>& task_paths,
                                            const std::vector<std::string>& candidate_paths) {
  const TaskIndex index(task_paths);
  MatchResult result;
  std::set<size_t> tasks_used;
  for (size_t candidate = 0; candidate < candidate_paths.size(); candidate++) {
    const std::string& path = candidate_paths[candidate];
    const std::vector<size_t>* found = nullptr;
    if (const auto number = NumberOfCandidate(path); number.has_value()) {
      if (const auto it = index.by_number.find(*number); it != index.by_number.end())
        found = &it->second;
    } else {
      found = index.FindByName(StemOf(path));
    }
    if (found == nullptr) {
      result.candidates_alone.push_back(candidate);
      continue;
    }
    if (found->size() > 1)
      return AmbiguousStatus(path, *found, task_paths);
    result.matches.push_back({found->front(), candidate});
    tasks_used.insert(found->front());
  }
  std::stable_sort(result.matches.begin(), result.matches.end(),
                   [](const Match& a, const Match& b) { return a.task < b.task; });
  for (size_t task = 0; task < task_paths.size(); task++) {
    if (tasks_used.count(task) == 0)
      result.tasks_alone.push_back(task);
  }
  return result;
}

absl::StatusOr<std::vector<uint64_t>> ParseNumberList(absl::string_view text) {
  std::vector<uint64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    uint64_t first = 0;
    uint64_t last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || last < first || last - first >= kRangeMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", part, "\" is not a task number or a range such as 3-9"));
    }
    for (uint64_t number = first; number <= last; number++)
      numbers.push_back(number);
  }
  return numbers;
}

std::string TaskNameOf(absl::string_view path) {
  constexpr size_t kNameCharsMax = 200;
  const auto parts = PartsOf(path);
  std::string name = StemOf(path);
  if (parts.size() >= 2 && parts[parts.size() - 2] != "." && parts[parts.size() - 2] != "..")
    name = absl::StrCat(parts[parts.size() - 2], "/", name);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("._/-", absl::string_view(&c, 1)))
      c = '_';
  }
  if (name.size() > kNameCharsMax)
    name.erase(0, name.size() - kNameCharsMax);
  return name;
}

}  // namespace pike::cli
