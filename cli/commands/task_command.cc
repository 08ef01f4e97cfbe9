#include <filesystem>
#include <vector>

#include <absl/strings/str_cat.h>

#include "cli/commands/command.h"
#include "cli/console.h"
#include "cli/eval/plan.h"
#include "cli/eval/run.h"
#include "cli/format.h"
#include "cli/source_files.h"
#include "cli/table.h"
#include "cli/task_match.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

// Adds the tasks of a page to the table, or prints them.
absl::Status Show(const v1::ListTasksResponse& page, bool is_json, Table* table) {
  for (const v1::TaskRecord& task : page.tasks()) {
    if (is_json) {
      RETURN_IF_ERROR(PrintJsonLine(task));
      continue;
    }
    table->AddRow({EscapeLine(task.version().substr(0, 12)),
                   FormatUnixMs(task.registered_unix_ms()), FormatBytes(task.source_bytes()),
                   EscapeLine(task.name())});
  }
  return absl::OkStatus();
}

ExitCode List(bool is_json, const GlobalOptions& globals) {
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  Table table({{"version"}, {"registered (UTC)"}, {"size", Table::Align::kRight}, {"name"}});
  v1::ListTasksRequest request;
  do {
    const auto page = (*client)->ListTasks(request);
    if (!page.ok())
      return ReportFailure(page.status());
    const absl::Status status = Show(*page, is_json, &table);
    if (!status.ok())
      return ReportFailure(status);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  if (!is_json)
    Console().PrintResult(table.rows() == 0 ? "no tasks\n" : table.Render());
  return ExitCode::kOk;
}

ExitCode Register(const std::vector<std::string>& paths, const GlobalOptions& globals) {
  std::vector<v1::RegisterTaskRequest> requests;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> source = ReadSource(path);
    if (!source.ok()) {
      PrintError(source.status().message());
      return ExitCode::kUsage;
    }
    v1::RegisterTaskRequest request;
    std::error_code error;
    request.set_name(
        TaskNameOf(std::filesystem::absolute(path, error).lexically_normal().string()));
    request.set_source(*std::move(source));
    requests.push_back(std::move(request));
  }
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  Console console;
  for (const v1::RegisterTaskRequest& request : requests) {
    const auto task = (*client)->RegisterTask(request);
    if (!task.ok())
      return ReportFailure(task.status());
    console.PrintResult(
        absl::StrCat(EscapeLine(task->version()), "  ", EscapeLine(task->name()), "\n"));
  }
  return ExitCode::kOk;
}

constexpr char kCheckFooter[] =
    R"(Examples:
  pike task check examples/tasks
  pike task check KernelBench/level3/31_VisionAttention.py --policy kernelbench

The columns frozen, zeros, constant and copy say which share of the elements passes if the outputs
are those of another input, zeros, one number, or an input; "depends on" by how much the outputs
change with each input; fp32 to bf16 by how much the reference is off in that precision.

Exit codes: 0 every task can judge; 1 some are degenerate, not valid or not checked; 2 bad
arguments, input or policy; 3 the service is not reachable; 4 an infra_error that is not a task's,
or work that the service refused; 130 interrupted.)";

ExitCode Check(EvalOptions options, const GlobalOptions& globals) {
  const absl::StatusOr<EvalPlan> plan = MakePlan(options);
  if (!plan.ok()) {
    PrintError(plan.status().message());
    return ExitCode::kUsage;
  }
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  options.run_id = NewRunId();
  return RunPlan(*plan, options, client->get());
}

void AddCheckCommand(CLI::App* task, const GlobalOptions* globals, Action* action) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* check = task->add_subcommand(
      "check", "Find out whether tasks can judge: evaluates each task's own reference");
  check->add_option("TASK", options->checked_tasks, "Task files or folders of tasks")->required();
  AddPolicyOptions(check, options.get());
  check->add_option("--gpu-class", options->gpu_class, "Run on this class only (\"cpu\")");
  check->add_flag("--json", options->is_json,
                  "One evaluation per line as proto3 JSON, its taskReport included");
  check->add_flag("--quiet,-q", options->is_quiet, "No progress on standard error");
  check->footer(kCheckFooter);
  check->callback([=] { *action = [=] { return Check(*options, *globals); }; });
}

}  // namespace

void AddTaskCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  CLI::App* command = app->add_subcommand("task", "List, register or check tasks");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n  pike task list\n  pike task register examples/tasks/01_attention.py\n"
      "  pike task check examples/tasks");
  CLI::App* list = command->add_subcommand("list", "List registered tasks, newest first");
  auto is_json = std::make_shared<bool>(false);
  list->add_flag("--json", *is_json,
                 "One task per line as proto3 JSON, its whole version included");
  list->footer("Example:\n  pike task list");
  list->callback([=] { *action = [=] { return List(*is_json, *globals); }; });
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* add =
      command->add_subcommand("register", "Register task files; `pike eval` does it by itself");
  add->add_option("FILE", *paths, "Task files")->required();
  add->footer("Example:\n  pike task register examples/tasks/01_attention.py");
  add->callback([=] { *action = [=] { return Register(*paths, *globals); }; });
  AddCheckCommand(command, globals, action);
}

}  // namespace pike::cli
