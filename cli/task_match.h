#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace pike::cli {

// The number in a file name without its ending: the digits it begins with ("31_VisionAttention",
// "031", "31-fused") or those after "task" ("task_31", "task31_v2"). None if digits run into
// letters
// ("3d_conv") or there are none.
std::optional<uint64_t> NumberOfStem(absl::string_view stem);

// File name without folder and ".py".
std::string StemOf(absl::string_view path);

// The number of a candidate's path: of its file name, else of its own folder ("31/best.py").
std::optional<uint64_t> NumberOfCandidate(absl::string_view path);

// Index of the task that `wanted` names among `task_paths`: a number, a stem
// ("31_VisionAttention"), or a stem without its number ("VisionAttention", case ignored). NotFound
// lists what is there; InvalidArgument if two fit.
absl::StatusOr<size_t> FindTask(absl::string_view wanted,
                                const std::vector<std::string>& task_paths);

// One candidate for one task, as indexes into the lists given to MatchCandidates.
struct Match {
  size_t task = 0;
  size_t candidate = 0;
  friend bool operator==(const Match& a, const Match& b) {
    return a.task == b.task && a.candidate == b.candidate;
  }
};

struct MatchResult {
  std::vector<Match> matches;            // by task, then by candidate
  std::vector<size_t> tasks_alone;       // no candidate has their number
  std::vector<size_t> candidates_alone;  // no task has their number, or they have none
};

// Pairs candidates with tasks: by number, else by equal name. Several candidates may go to one
// task. InvalidArgument if two tasks have the same number and a candidate asks for it.
absl::StatusOr<MatchResult> MatchCandidates(const std::vector<std::string>& task_paths,
                                            const std::vector<std::string>& candidate_paths);

// Numbers as in "3,7-9". InvalidArgument says what is wrong.
absl::StatusOr<std::vector<uint64_t>> ParseNumberList(absl::string_view text);

// The name a task is registered under: its folder and stem ("level3/43_MinGPT"), other characters
// than [A-Za-z0-9._/-] replaced by "_", at most 200 characters.
std::string TaskNameOf(absl::string_view path);

}  // namespace pike::cli
