#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "pike/v1/types.pb.h"

namespace pike::cli {

// What the user asked for, as typed. Either `task` and `candidates`, or `suite` and
// `candidate_folders`, or `checked_tasks`.
struct EvalOptions {
  std::string task;                     // a path, or a number or name among `tasks_folder`
  std::vector<std::string> candidates;  // paths, or the word "reference"
  std::string tasks_folder;
  std::string suite;
  std::vector<std::string> candidate_folders;  // or the word "reference"
  std::vector<std::string> checked_tasks;      // files and folders: each task's own reference
  std::string only;                            // task numbers, "3,7-9"; empty means all
  std::vector<std::string> exclude;            // file name patterns of candidates to leave out
  std::string policy = "paper";
  std::optional<double> atol;
  std::optional<double> rtol;
  std::vector<std::string> policy_fields;  // "key=value"
  std::string gpu_class;
  std::string run_id;  // empty: a new one
  bool is_json = false;
  bool is_quiet = false;
};

struct PlannedTask {
  std::string name;
  std::string source;
};

struct PlannedEval {
  size_t task = 0;
  std::string candidate_name;
  std::string source;
};

// Everything a run submits, read from disk.
struct EvalPlan {
  std::vector<PlannedTask> tasks;
  std::vector<PlannedEval> evals;
  v1::Policy policy;
  std::vector<std::string> notes;  // tasks and candidates left out, one line each
};

// Reads and pairs the files. Every error is one line that says what to do.
absl::StatusOr<EvalPlan> MakePlan(const EvalOptions& options);

// Key of one submission: the same for the same run, so that repeating it is harmless, and another
// for each item and each run.
std::string ClientKey(const std::string& run_id, size_t item, const std::string& task_version,
                      const std::string& source);

}  // namespace pike::cli
