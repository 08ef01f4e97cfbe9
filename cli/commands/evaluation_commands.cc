// `pike get`, `pike list` and `pike cancel`.
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "cli/commands/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/record_text.h"
#include "cli/table.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

struct GetOptions {
  std::string evaluation_id;
  bool is_json = false;
};

struct ListOptions {
  bool is_active_only = false;
  bool is_json = false;
  uint32_t count_max = 50;
};

ExitCode Get(const GetOptions& options, const GlobalOptions& globals) {
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  const auto record = (*client)->GetEvaluation(options.evaluation_id);
  if (!record.ok())
    return ReportFailure(record.status());
  if (!options.is_json) {
    Console().PrintResult(RenderRecord(*record));
    return ExitCode::kOk;
  }
  const absl::Status status = PrintJsonLine(*record);
  return status.ok() ? ExitCode::kOk : ReportFailure(status);
}

struct Listed {
  std::vector<v1::EvaluationRecord> records;
  bool has_more = false;
};

// Pages through the list until `options` are satisfied.
absl::StatusOr<Listed> FetchList(const ListOptions& options, ServiceClient* client) {
  constexpr uint32_t kPageMax = 200;
  Listed listed;
  std::vector<v1::EvaluationRecord>& records = listed.records;
  v1::ListEvaluationsRequest request;
  request.set_active_only(options.is_active_only);
  while (records.size() < options.count_max) {
    request.set_page_size(
        std::min<uint32_t>(kPageMax, options.count_max - static_cast<uint32_t>(records.size())));
    auto page = client->ListEvaluations(request);
    if (!page.ok())
      return page.status();
    for (v1::EvaluationRecord& record : *page->mutable_evaluations())
      records.push_back(std::move(record));
    listed.has_more = !page->next_page_token().empty();
    if (!listed.has_more)
      break;
    request.set_page_token(page->next_page_token());
  }
  return listed;
}

std::string RenderList(const std::vector<v1::EvaluationRecord>& records, bool has_colour) {
  Table table({{"id"},
               {"submitted (UTC)"},
               {"task", Table::Align::kLeft, 36},
               {"candidate", Table::Align::kLeft, 36},
               {"state"},
               {"speedup", Table::Align::kRight}});
  for (const v1::EvaluationRecord& record : records) {
    const v1::Verdict& verdict = record.verdict();
    std::string state = StageName(record.stage());
    if (record.has_verdict())
      state = VerdictName(verdict.kind());
    else if (record.queue_position() > 0)
      absl::StrAppend(&state, ", place ", record.queue_position());
    if (has_colour && record.has_verdict())
      state = ColourVerdict(verdict.kind(), state);
    table.AddRow({EscapeLine(record.evaluation_id()), FormatUnixMs(record.submitted_unix_ms()),
                  EscapeLine(record.task_name()), EscapeLine(record.candidate_name()), state,
                  verdict.has_measurement() ? FormatSpeedup(verdict.measurement().speedup()) : ""});
  }
  return table.Render();
}

ExitCode List(const ListOptions& options, const GlobalOptions& globals) {
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  const auto listed = FetchList(options, client->get());
  if (!listed.ok())
    return ReportFailure(listed.status());
  if (!options.is_json) {
    Console console;
    console.PrintResult(listed->records.empty()
                            ? "no evaluations\n"
                            : RenderList(listed->records, console.has_colour()));
    if (listed->has_more)
      console.PrintResult(
          absl::StrCat("older ones exist: `pike list -n ", 2 * options.count_max, "`\n"));
    return ExitCode::kOk;
  }
  for (const v1::EvaluationRecord& record : listed->records) {
    const absl::Status status = PrintJsonLine(record);
    if (!status.ok())
      return ReportFailure(status);
  }
  return ExitCode::kOk;
}

ExitCode Cancel(const std::vector<std::string>& evaluation_ids, const GlobalOptions& globals) {
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  Console console;
  ExitCode code = ExitCode::kOk;
  for (const std::string& id : evaluation_ids) {
    const auto record = (*client)->Cancel(id);
    if (!record.ok()) {
      code = ReportFailure(record.status());
      continue;
    }
    const std::string state =
        record->has_verdict() ? VerdictName(record->verdict().kind()) : StageName(record->stage());
    console.PrintResult(absl::StrCat(EscapeLine(id), ": ", state, "\n"));
  }
  return code;
}

}  // namespace

void AddGetCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  auto options = std::make_shared<GetOptions>();
  CLI::App* command = app->add_subcommand("get", "Show one evaluation with all its evidence");
  command->add_option("ID", options->evaluation_id, "Evaluation id, as `pike list` shows it")
      ->required();
  command->add_flag("--json", options->is_json, "Proto3 JSON on one line");
  command->footer(
      "Example:\n  pike list -n 1\n  pike get ev-0000000012    # or ev-12\n\n"
      "Exit codes: 0 shown, 1 no such evaluation, 2 bad arguments, 3 not reachable.");
  command->callback([=] { *action = [=] { return Get(*options, *globals); }; });
}

void AddListCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = app->add_subcommand("list", "List evaluations, newest first");
  command->add_flag("--active", options->is_active_only, "Only those that have not ended");
  command->add_flag("--json", options->is_json, "One evaluation per line as proto3 JSON");
  command->add_option("--count,-n", options->count_max, "Most to show")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->footer("Example:\n  pike list --active\n  pike list --json -n 1000 > evaluations.jsonl");
  command->callback([=] { *action = [=] { return List(*options, *globals); }; });
}

void AddCancelCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  auto ids = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app->add_subcommand("cancel", "Cancel evaluations; ended ones stay as they are");
  command->add_option("ID", *ids, "Evaluation ids")->required();
  command->footer("Example:\n  pike cancel ev-0000000012    # or ev-12");
  command->callback([=] { *action = [=] { return Cancel(*ids, *globals); }; });
}

}  // namespace pike::cli
