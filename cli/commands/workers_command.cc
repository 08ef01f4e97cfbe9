#include <vector>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "cli/commands/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/table.h"
#include "common/base/clock.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

std::string DevicesText(const v1::WorkerRecord& worker) {
  std::vector<std::string> names;
  for (const v1::Device& device : worker.devices())
    names.push_back(EscapeLine(device.gpu_class()));
  return absl::StrJoin(names, ", ");
}

// What is missing matters; --json lists what is there too.
std::string SandboxText(const v1::WorkerRecord& worker) {
  if (worker.sandbox_missing().empty())
    return "complete";
  return absl::StrCat("without ", EscapeLine(absl::StrJoin(worker.sandbox_missing(), ", ")));
}

// Since when the worker is known to judge well; empty for a compile worker, which judges nothing.
std::string CanariesText(const v1::WorkerRecord& worker, int64_t now_ms) {
  if (!worker.canary_failure().empty())
    return "FAILED";
  if (worker.kind() != v1::WORKER_KIND_GPU)
    return "";
  if (worker.certificate().empty())
    return "none yet";
  return absl::StrCat("passed ",
                      FormatDuration(std::chrono::milliseconds(
                          std::max<int64_t>(0, now_ms - worker.certified_unix_ms()))),
                      " ago");
}

ExitCode PrintJsonLines(const v1::ListWorkersResponse& workers) {
  for (const v1::WorkerRecord& worker : workers.workers()) {
    const absl::Status status = PrintJsonLine(worker);
    if (!status.ok())
      return ReportFailure(status);
  }
  return ExitCode::kOk;
}

ExitCode Run(bool is_json, const GlobalOptions& globals) {
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  const auto workers = (*client)->ListWorkers();
  if (!workers.ok())
    return ReportFailure(workers.status());
  if (is_json)
    return PrintJsonLines(*workers);
  const auto status = (*client)->GetStatus();
  if (!status.ok())
    return ReportFailure(status.status());
  Table table({{"kind"},
               {"state"},
               {"busy"},
               {"devices"},
               {"torch"},
               {"nvcc"},
               {"sandbox"},
               {"canaries"},
               {"last seen", Table::Align::kRight},
               {"id"}});
  const int64_t now_ms = ToUnixMs(WallNow());
  for (const v1::WorkerRecord& worker : workers->workers()) {
    const std::chrono::milliseconds silence(
        std::max<int64_t>(0, now_ms - worker.last_seen_unix_ms()));
    table.AddRow({WorkerKindName(worker.kind()), WorkerStateName(worker.state()),
                  absl::StrCat(worker.leases(), "/", worker.slots()), DevicesText(worker),
                  EscapeLine(worker.toolchain().torch_version()),
                  EscapeLine(worker.toolchain().nvcc_version()), SandboxText(worker),
                  CanariesText(worker, now_ms), FormatDuration(silence),
                  EscapeLine(worker.worker_id())});
  }
  Console console;
  console.PrintResult(workers->workers().empty() ? "no workers\n" : table.Render());
  for (const v1::WorkerRecord& worker : workers->workers()) {
    if (!worker.canary_failure().empty())
      console.PrintResult(absl::StrCat("\n", EscapeLine(worker.worker_id()), " gets no more work: ",
                                       EscapeLine(worker.canary_failure()), "\n"));
  }
  console.PrintResult(absl::StrCat("\n", status->queued_compile(), " waiting to compile, ",
                                   status->queued_run(), " waiting to run, ", status->leases(),
                                   " leases, ", status->active_evaluations(), " active, ",
                                   status->ended_evaluations(), " ended\n"));
  return ExitCode::kOk;
}

ExitCode Drain(const std::vector<std::string>& worker_ids, const GlobalOptions& globals) {
  auto client = Connect(globals);
  if (!client.ok())
    return ReportFailure(client.status());
  ExitCode code = ExitCode::kOk;
  for (const std::string& id : worker_ids) {
    const auto worker = (*client)->DrainWorker(id);
    if (!worker.ok()) {
      code = ReportFailure(worker.status());
      continue;
    }
    Console().PrintResult(absl::StrCat(EscapeLine(id), ": ", WorkerStateName(worker->state()), ", ",
                                       worker->leases(), " leases left\n"));
  }
  return code;
}

}  // namespace

void AddWorkersCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  CLI::App* command = app->add_subcommand("workers", "List workers and the load");
  auto is_json = std::make_shared<bool>(false);
  command->add_flag("--json", *is_json, "One worker per line as proto3 JSON");
  command->footer("Example:\n  pike workers");
  command->callback([=] { *action = [=] { return Run(*is_json, *globals); }; });
}

void AddDrainCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  auto ids = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app->add_subcommand(
      "drain", "Let workers finish what they have and end; they get nothing more");
  command->add_option("WORKER", *ids, "Worker ids, as `pike workers` shows them")->required();
  command->footer(
      "Example:\n  pike drain gpu-myhost-1234-1a2b3c4d\n\n"
      "What runs a worker may start it again, as `pike up` does.\n\n"
      "Exit codes: 0 done, 1 no such worker, 2 bad arguments, 3 not reachable.");
  command->callback([=] { *action = [=] { return Drain(*ids, *globals); }; });
}

}  // namespace pike::cli
