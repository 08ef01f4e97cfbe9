#include "cli/eval/run.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>

#include <absl/strings/str_cat.h>

#include "cli/client/watch_set.h"
#include "cli/console.h"
#include "cli/eval/progress.h"
#include "cli/eval/session.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/record_text.h"
#include "cli/result_table.h"
#include "cli/task_report_text.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"

namespace pike::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr std::chrono::seconds kPlainPulse{30};
// Where lines are all there is, small runs show every stage and large ones only endings.
constexpr size_t kPlainStagesMax = 4;

std::string LabelOf(const EvalPlan& plan, size_t item) {
  const PlannedEval& eval = plan.evals[item];
  return EscapeLine(absl::StrCat(plan.tasks[eval.task].name, " / ", eval.candidate_name));
}

std::vector<std::string> LabelsOf(const EvalPlan& plan) {
  std::vector<std::string> labels;
  for (size_t i = 0; i < plan.evals.size(); i++)
    labels.push_back(LabelOf(plan, i));
  return labels;
}

// Registers every task. The returned versions are in the order of the plan's tasks.
absl::StatusOr<std::vector<std::string>> RegisterTasks(const EvalPlan& plan,
                                                       ServiceClient* client) {
  std::vector<std::string> versions;
  for (const PlannedTask& task : plan.tasks) {
    v1::RegisterTaskRequest request;
    request.set_name(task.name);
    request.set_source(task.source);
    absl::StatusOr<v1::TaskRecord> record = client->RegisterTask(request);
    if (!record.ok()) {
      return absl::Status(record.status().code(), absl::StrCat("cannot register task ", task.name,
                                                               ": ", record.status().message()));
    }
    versions.push_back(record->version());
  }
  return versions;
}

// The loop that feeds an EvalSession and shows what it learns.
class EvalRun {
 public:
  EvalRun(const EvalPlan& plan, const EvalOptions& options, std::vector<std::string> versions,
          ServiceClient* client)
      : plan_(plan),
        options_(options),
        versions_(std::move(versions)),
        client_(client),
        console_(options.is_quiet),
        session_(plan.evals.size(), SessionLimits(), MonoNow()),
        progress_(LabelsOf(plan), MonoNow()),
        next_pulse_(MonoNow() + kPlainPulse),
        is_reported_(plan.evals.size(), false),
        watches_(client->channel()) {}

  ExitCode Run() {
    for (const std::string& note : plan_.notes)
      console_.PrintProgress(absl::StrCat("note: ", EscapeLine(note)));
    while (!session_.is_done()) {
      if (interrupt_.is_requested() && !session_.is_interrupted()) {
        console_.PrintProgress(
            "interrupted: cancelling what was submitted (again to leave at once)");
        session_.Interrupt(MonoNow());
      }
      const bool was_busy = CarryOut(session_.TakeCommands(MonoNow()));
      const MonoTime tick = was_busy ? MonoNow() : MonoNow() + kTick;
      for (WatchEvent& event : watches_.Take(std::min(tick, session_.NextWake().value_or(tick))))
        Apply(event);
      ReportEnded();
      Show();
    }
    ReportEnded();
    console_.ClearBlock();
    return Finish();
  }

 private:
  // Returns whether there was anything to do.
  bool CarryOut(const std::vector<SessionCommand>& commands) {
    for (const SessionCommand& command : commands) {
      if (const auto* submit = std::get_if<SubmitItem>(&command)) {
        const v1::Stage stage_before = session_.record(submit->item).stage();
        session_.OnSubmitted(submit->item, client_->Submit(RequestFor(submit->item)), MonoNow());
        ShowStage(submit->item, stage_before);
      } else if (const auto* watch = std::get_if<WatchItem>(&command)) {
        watches_.Start(watch->item, watch->evaluation_id);
      } else if (const auto* cancel = std::get_if<CancelItem>(&command)) {
        session_.OnCancelled(cancel->item, client_->Cancel(cancel->evaluation_id), MonoNow());
      }
    }
    return !commands.empty();
  }

  v1::SubmitRequest RequestFor(size_t item) const {
    const PlannedEval& eval = plan_.evals[item];
    v1::SubmitRequest request;
    request.set_client_key(ClientKey(options_.run_id, item, versions_[eval.task], eval.source));
    request.set_task_version(versions_[eval.task]);
    request.set_candidate_source(eval.source);
    request.set_candidate_name(eval.candidate_name.substr(0, 200));
    request.set_candidate_sha256(Sha256Hex(eval.source));
    request.set_gpu_class(options_.gpu_class);
    *request.mutable_policy() = plan_.policy;
    return request;
  }

  void Apply(const WatchEvent& event) {
    if (event.ended.has_value()) {
      session_.OnWatchEnded(event.item, *event.ended, MonoNow());
      return;
    }
    const v1::Stage stage_before = session_.record(event.item).stage();
    session_.OnUpdate(event.item, *event.record, MonoNow());
    progress_.OnUpdate(event.item, *event.record, MonoNow());
    ShowStage(event.item, stage_before);
  }

  // One line where the item came to another stage and there is no block that shows it.
  void ShowStage(size_t item, v1::Stage before) {
    const v1::Stage stage = session_.record(item).stage();
    if (console_.is_live() || plan_.evals.size() > kPlainStagesMax || stage == before ||
        stage == v1::STAGE_ENDED)
      return;
    console_.PrintProgress(absl::StrCat(LabelOf(plan_, item), ": ", StageName(stage)));
  }

  // One line, or one JSON record, for each evaluation that has ended since the last call.
  void ReportEnded() {
    for (size_t i = 0; i < session_.size(); i++) {
      if (is_reported_[i] || !session_.is_item_ended(i))
        continue;
      is_reported_[i] = true;
      progress_.OnEnded(i);
      reported_++;
      const v1::EvaluationRecord& record = session_.record(i);
      if (options_.is_json && record.has_verdict())
        PrintJson(record);
      // All of them may be wrong in the same way: that is one line in the end.
      if (!absl::IsInvalidArgument(session_.refusal(i)))
        console_.PrintProgress(EndLine(i));
    }
  }

  void PrintJson(const v1::EvaluationRecord& record) {
    const absl::StatusOr<std::string> json = ToJsonLine(record);
    if (json.ok())
      console_.PrintResult(*json + "\n");
    else
      PrintError(json.status().message());
  }

  std::string EndLine(size_t item) const {
    const v1::EvaluationRecord& record = session_.record(item);
    std::string line =
        absl::StrCat("[", reported_, "/", session_.size(), "] ", LabelOf(plan_, item), ": ");
    if (!session_.refusal(item).ok())
      return absl::StrCat(line, "refused: ", EscapeLine(session_.refusal(item).message()));
    if (!record.has_verdict())
      return absl::StrCat(line, "not submitted");
    absl::StrAppend(&line, VerdictName(record.verdict().kind()));
    if (record.verdict().has_measurement())
      absl::StrAppend(&line, " ", FormatSpeedup(record.verdict().measurement().speedup()));
    const std::string reason = ReasonLine(record.verdict());
    return reason.empty() ? line : absl::StrCat(line, ": ", reason);
  }

  void Show() {
    const MonoTime now = MonoNow();
    if (session_.unreachable_since().has_value()) {
      const auto away =
          std::chrono::duration_cast<milliseconds>(now - *session_.unreachable_since());
      progress_.SetNotice(
          absl::StrCat("the service does not answer (", FormatDuration(away), "); trying again"));
    } else {
      progress_.SetNotice("");
    }
    if (console_.is_live()) {
      console_.DrawBlock(progress_.RenderBlock(now, console_.width(), console_.height()));
    } else if (now >= next_pulse_) {
      console_.PrintProgress(progress_.OverallLine(now));
      next_pulse_ = now + kPlainPulse;
    }
  }

  ExitCode Finish() {
    const EvalCounts counts = session_.Count();
    if (counts.is_all_invalid()) {
      PrintRefusals();
      return ExitCodeOf(counts);
    }
    if (options_.is_json)
      PrintMissing();
    else if (IsTaskCheck())
      console_.PrintResult(RenderTaskChecks(Rows()));
    else
      console_.PrintResult(RenderResults(Rows(), {console_.has_colour(), console_.result_width()}));
    if (counts.unfinished > 0 && !counts.is_interrupted) {
      PrintError(absl::StrCat("the service stayed away (",
                              session_.last_connection_error().message(), "); ", counts.unfinished,
                              " evaluations unfinished. Start it with `pike up` and repeat "
                              "the command with --run-id ",
                              options_.run_id, " to go on"));
    }
    return IsTaskCheck() ? CheckCode(counts) : ExitCodeOf(counts);
  }

  bool IsTaskCheck() const { return !options_.checked_tasks.empty(); }

  // What the tasks are to blame for is a result; anything else is as in an evaluation.
  ExitCode CheckCode(const EvalCounts& counts) const {
    const std::vector<ResultRow> rows = Rows();
    if (counts.is_interrupted || std::any_of(rows.begin(), rows.end(), HasOtherFault))
      return ExitCodeOf(counts);
    return CanAllJudge(rows) ? ExitCode::kOk : ExitCode::kFailure;
  }

  // Each thing the service found wrong, once.
  void PrintRefusals() const {
    std::set<std::string> messages;
    for (size_t i = 0; i < session_.size(); i++)
      messages.insert(std::string(session_.refusal(i).message()));
    for (const std::string& message : messages)
      PrintError(message);
  }

  // What has no JSON record must leave a trace all the same, even without progress.
  void PrintMissing() const {
    for (size_t i = 0; i < session_.size(); i++) {
      const absl::Status& refusal = session_.refusal(i);
      const bool has_end_line =
          !options_.is_quiet && session_.is_item_ended(i) && !absl::IsInvalidArgument(refusal);
      if (has_end_line || session_.record(i).has_verdict())
        continue;
      if (!refusal.ok())
        PrintError(absl::StrCat(LabelOf(plan_, i), ": refused: ", refusal.message()));
      else
        PrintError(absl::StrCat(LabelOf(plan_, i), session_.record(i).evaluation_id().empty()
                                                       ? ": not submitted"
                                                       : ": unfinished"));
    }
  }

  std::vector<ResultRow> Rows() const {
    std::vector<ResultRow> rows;
    for (size_t i = 0; i < session_.size(); i++) {
      const PlannedEval& eval = plan_.evals[i];
      rows.push_back({plan_.tasks[eval.task].name, eval.candidate_name, session_.record(i),
                      std::string(session_.refusal(i).message())});
    }
    return rows;
  }

  const EvalPlan& plan_;
  const EvalOptions& options_;
  const std::vector<std::string> versions_;
  ServiceClient* const client_;
  Console console_;
  Interrupt interrupt_;
  EvalSession session_;
  Progress progress_;
  MonoTime next_pulse_;
  std::vector<bool> is_reported_;
  size_t reported_ = 0;
  WatchSet watches_;
};

}  // namespace

ExitCode RunPlan(const EvalPlan& plan, const EvalOptions& options, ServiceClient* client) {
  absl::StatusOr<std::vector<std::string>> versions = RegisterTasks(plan, client);
  if (!versions.ok()) {
    if (IsUnreachable(versions.status())) {
      PrintError(UnreachableText(client->target()));
      return ExitCode::kUnreachable;
    }
    PrintError(versions.status().message());
    return absl::IsInvalidArgument(versions.status()) ? ExitCode::kUsage : ExitCode::kInfra;
  }
  return EvalRun(plan, options, *std::move(versions), client).Run();
}

}  // namespace pike::cli
