#include <random>

#include <absl/strings/str_format.h>

#include "cli/commands/command.h"
#include "cli/console.h"
#include "cli/eval/plan.h"
#include "cli/eval/run.h"

namespace pike::cli {
namespace {

constexpr char kEvalFooter[] =
    R"(Examples:
  pike eval examples/tasks/01_attention.py examples/candidates/valid/01_fused_attention.py
  pike eval 31 my_kernel.py reference --tasks KernelBench/level3
  pike eval --suite KernelBench/level1 --candidates solutions --only 1-20 --set call_timeout_ms=5000
  pike eval --suite examples/tasks --candidates reference --json > results.jsonl

Candidates of a suite are matched by the number in the file name: task 31_VisionAttention.py with
task_31.py, 31.py, 31_anything.py or 31/anything.py. "reference" submits the task's own file.

Exit codes: 0 all valid; 1 some not valid; 2 bad arguments, input or policy; 3 the service is not
reachable; 4 an infra_error, or work that the service refused; 130 interrupted.)";

// Empty if the combination makes sense, else what is wrong with it.
std::string CheckForm(const EvalOptions& options) {
  const bool is_suite = !options.suite.empty();
  if (is_suite && !options.task.empty())
    return "give either TASK CANDIDATE... or --suite and --candidates, not both";
  if (is_suite && options.candidate_folders.empty())
    return "--suite needs --candidates FOLDER (or --candidates reference)";
  if (!is_suite && !options.candidate_folders.empty())
    return "--candidates needs --suite FOLDER";
  if (!is_suite && (!options.only.empty() || !options.exclude.empty()))
    return "--only and --exclude need --suite FOLDER";
  if (!is_suite && options.task.empty())
    return "nothing to evaluate: give TASK CANDIDATE..., or --suite and --candidates";
  if (!is_suite && options.candidates.empty())
    return "no candidate: give one or more files, or the word reference";
  return "";
}

ExitCode Run(EvalOptions options, const GlobalOptions& globals) {
  const std::string problem = CheckForm(options);
  if (!problem.empty()) {
    PrintError(problem + " (see `pike eval --help`)");
    return ExitCode::kUsage;
  }
  const absl::StatusOr<EvalPlan> plan = MakePlan(options);
  if (!plan.ok()) {
    PrintError(plan.status().message());
    return ExitCode::kUsage;
  }
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  if (options.run_id.empty())
    options.run_id = NewRunId();
  return RunPlan(*plan, options, client->get());
}

}  // namespace

std::string NewRunId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

void AddPolicyOptions(CLI::App* command, EvalOptions* options) {
  command->add_option("--policy", options->policy, "Built-in policy: paper, kernelbench or strict")
      ->capture_default_str();
  command->add_option("--atol", options->atol, "Absolute tolerance")->check(CLI::NonNegativeNumber);
  command->add_option("--rtol", options->rtol, "Relative tolerance")->check(CLI::NonNegativeNumber);
  command
      ->add_option(
          "--set", options->policy_fields,
          "Policy field, key=value, as in timed_calls_max=20; repeatable; `--set help` lists "
          "the fields")
      ->take_all()
      ->allow_extra_args(false);
}

void AddEvalCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command =
      app->add_subcommand("eval", "Check and time candidates; wait for the verdicts");
  command->add_option("TASK", options->task, "Task file, or a number or name in --tasks");
  command->add_option("CANDIDATE", options->candidates, "Candidate files, or the word reference");
  command->add_option("--tasks", options->tasks_folder, "Folder to look TASK up in");
  command->add_option("--suite", options->suite, "Folder of tasks");
  command
      ->add_option("--candidates", options->candidate_folders,
                   "Folder of candidates for --suite, or the word reference; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--only", options->only, "Task numbers of the suite, as in 3,7-9");
  command
      ->add_option("--exclude", options->exclude,
                   "Leave out candidates of --candidates with this name pattern; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  AddPolicyOptions(command, options.get());
  command->add_option("--gpu-class", options->gpu_class, "Run on this class only (\"cpu\")");
  command->add_option("--run-id", options->run_id,
                      "Name of the run: the same command with the same files and name finds what "
                      "it submitted before (default: a new one)");
  command->add_flag("--json", options->is_json,
                    "One evaluation per line as proto3 JSON on standard output, nothing else");
  command->add_flag("--quiet,-q", options->is_quiet, "No progress on standard error");
  command->footer(kEvalFooter);
  command->callback([=] { *action = [=] { return Run(*options, *globals); }; });
}

}  // namespace pike::cli
