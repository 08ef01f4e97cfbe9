#include "cli/eval/plan.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include <absl/status/status.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include "cli/policy_text.h"
#include "cli/source_files.h"
#include "cli/task_match.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"

namespace pike::cli {
namespace {

constexpr absl::string_view kReference = "reference";
constexpr size_t kNotesNamesMax = 6;

absl::StatusOr<v1::Policy> MakePolicy(const EvalOptions& options) {
  v1::Policy policy;
  policy.set_name(options.policy);
  if (options.atol.has_value())
    policy.set_atol(*options.atol);
  if (options.rtol.has_value())
    policy.set_rtol(*options.rtol);
  for (const std::string& assignment : options.policy_fields)
    RETURN_IF_ERROR(SetPolicyField(assignment, &policy));
  return policy;
}

absl::StatusOr<std::string> FindTaskPath(const EvalOptions& options) {
  std::error_code error;
  if (std::filesystem::exists(options.task, error))
    return options.task;
  if (options.tasks_folder.empty()) {
    return absl::NotFoundError(absl::StrCat("no file ", options.task,
                                            ": give a path, or --tasks FOLDER to look the task up "
                                            "by its number or name"));
  }
  ASSIGN_OR_RETURN(const auto paths, ListPythonFiles(options.tasks_folder, false));
  ASSIGN_OR_RETURN(const size_t index, FindTask(options.task, paths));
  return paths[index];
}

absl::StatusOr<PlannedTask> PlanTask(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  ASSIGN_OR_RETURN(std::string source, ReadSource(path));
  return PlannedTask{TaskNameOf(absolute.lexically_normal().string()), std::move(source)};
}

absl::StatusOr<EvalPlan> PlanOneTask(const EvalOptions& options) {
  EvalPlan plan;
  ASSIGN_OR_RETURN(const std::string task_path, FindTaskPath(options));
  ASSIGN_OR_RETURN(PlannedTask task, PlanTask(task_path));
  for (const std::string& candidate : options.candidates) {
    std::string source = task.source;
    if (candidate != kReference) {
      ASSIGN_OR_RETURN(source, ReadSource(candidate));
    }
    plan.evals.push_back({0, candidate, std::move(source)});
  }
  plan.tasks.push_back(std::move(task));
  return plan;
}

// The suite's tasks that were asked for.
absl::StatusOr<std::vector<std::string>> SuitePaths(const EvalOptions& options) {
  ASSIGN_OR_RETURN(auto paths, ListPythonFiles(options.suite, false));
  if (options.only.empty())
    return paths;
  ASSIGN_OR_RETURN(const auto numbers, ParseNumberList(options.only));
  const std::set<uint64_t> wanted(numbers.begin(), numbers.end());
  std::erase_if(paths, [&wanted](const std::string& path) {
    const auto number = NumberOfStem(StemOf(path));
    return !number.has_value() || wanted.count(*number) == 0;
  });
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no task of ", options.suite, " has a number of --only ", options.only));
  }
  return paths;
}

bool IsExcluded(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&name](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
           ::fnmatch(pattern.c_str(), (StemOf(name) + ".py").c_str(), 0) == 0;
  });
}

// Candidates as the user knows them: relative to the folder that was given.
struct Candidates {
  std::vector<std::string> names;
  std::vector<std::string> paths;
};

absl::StatusOr<Candidates> ListCandidates(const std::string& folder, const EvalOptions& options) {
  Candidates candidates;
  ASSIGN_OR_RETURN(const auto paths, ListPythonFiles(folder, true));
  for (const std::string& path : paths) {
    const std::string name = std::filesystem::path(path).lexically_relative(folder).string();
    if (IsExcluded(name, options.exclude))
      continue;
    candidates.names.push_back(name);
    candidates.paths.push_back(path);
  }
  return candidates;
}

std::string NameList(std::vector<std::string> names) {
  const size_t count = names.size();
  if (count > kNotesNamesMax) {
    names.resize(kNotesNamesMax);
    names.push_back(absl::StrCat("and ", count - kNotesNamesMax, " more"));
  }
  return absl::StrJoin(names, ", ");
}

// An evaluation to be, its source not read yet.
struct Pair {
  size_t task = 0;
  std::string candidate_name;
  std::string path;
};

absl::Status AddFolder(const std::string& folder, const EvalOptions& options,
                       const std::vector<std::string>& task_paths, std::vector<Pair>* pairs,
                       std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const Candidates candidates, ListCandidates(folder, options));
  ASSIGN_OR_RETURN(const MatchResult found, MatchCandidates(task_paths, candidates.names));
  for (const Match& match : found.matches)
    pairs->push_back(
        {match.task, candidates.names[match.candidate], candidates.paths[match.candidate]});
  if (found.candidates_alone.empty())
    return absl::OkStatus();
  std::vector<std::string> names;
  for (const size_t candidate : found.candidates_alone)
    names.push_back(candidates.names[candidate]);
  notes->push_back(absl::StrCat("no task for ", names.size(), " candidates of ", folder, ": ",
                                NameList(std::move(names))));
  return absl::OkStatus();
}

absl::StatusOr<EvalPlan> PlanSuite(const EvalOptions& options) {
  EvalPlan plan;
  ASSIGN_OR_RETURN(const auto task_paths, SuitePaths(options));
  std::vector<Pair> pairs;
  for (const std::string& folder : options.candidate_folders) {
    if (folder == kReference) {
      for (size_t task = 0; task < task_paths.size(); task++)
        pairs.push_back({task, std::string(kReference), task_paths[task]});
      continue;
    }
    RETURN_IF_ERROR(AddFolder(folder, options, task_paths, &pairs, &plan.notes));
  }
  if (pairs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no candidate of ", absl::StrJoin(options.candidate_folders, ", "),
        " has the number of a task of ", options.suite,
        ": name them like the tasks (31_name.py, task_31.py or 31.py for task 31_...)"));
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.task < b.task; });
  size_t last_task = task_paths.size();
  for (const Pair& pair : pairs) {
    if (pair.task != last_task) {
      ASSIGN_OR_RETURN(PlannedTask task, PlanTask(task_paths[pair.task]));
      plan.tasks.push_back(std::move(task));
      last_task = pair.task;
    }
    ASSIGN_OR_RETURN(std::string source, ReadSource(pair.path));
    plan.evals.push_back({plan.tasks.size() - 1, pair.candidate_name, std::move(source)});
  }
  if (plan.tasks.size() < task_paths.size()) {
    plan.notes.push_back(
        absl::StrCat("no candidate for ", task_paths.size() - plan.tasks.size(), " tasks"));
  }
  return plan;
}

absl::StatusOr<EvalPlan> PlanChecks(const EvalOptions& options) {
  EvalPlan plan;
  for (const std::string& path : options.checked_tasks) {
    std::error_code error;
    std::vector<std::string> files = {path};
    if (std::filesystem::is_directory(path, error)) {
      ASSIGN_OR_RETURN(files, ListPythonFiles(path, false));
    }
    for (const std::string& file : files) {
      ASSIGN_OR_RETURN(PlannedTask task, PlanTask(file));
      plan.evals.push_back({plan.tasks.size(), std::string(kReference), task.source});
      plan.tasks.push_back(std::move(task));
    }
  }
  return plan;
}

}  // namespace

absl::StatusOr<EvalPlan> MakePlan(const EvalOptions& options) {
  ASSIGN_OR_RETURN(v1::Policy policy, MakePolicy(options));
  absl::StatusOr<EvalPlan> plan = !options.checked_tasks.empty() ? PlanChecks(options)
                                  : options.suite.empty()        ? PlanOneTask(options)
                                                                 : PlanSuite(options);
  if (plan.ok())
    plan->policy = std::move(policy);
  return plan;
}

std::string ClientKey(const std::string& run_id, size_t item, const std::string& task_version,
                      const std::string& source) {
  const std::string digest =
      Sha256Hex(absl::StrCat(run_id, "\n", item, "\n", task_version, "\n", Sha256Hex(source)));
  return absl::StrCat("cli-", digest.substr(0, 40));
}

}  // namespace pike::cli
