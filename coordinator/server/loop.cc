#include "coordinator/server/loop.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include <absl/strings/str_cat.h>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "coordinator/rpc/convert.h"
#include "coordinator/rpc/evaluation_record.h"
#include "coordinator/rpc/record_codec.h"

namespace pike::coordinator {

Loop::Loop(const LoopOptions& options, const CoreOptions& core_options, const LoopParts& parts)
    : options_(options), parts_(parts), core_(core_options) {}

absl::Status Loop::Recover() {
  ASSIGN_OR_RETURN(const StoredState state, parts_.store->Load());
  for (const auto* records : {&state.snapshot, &state.log}) {
    for (const std::string& bytes : *records) {
      ASSIGN_OR_RETURN(const Record record, DecodeRecord(bytes));
      core_.Apply(record);
    }
  }
  records_since_snapshot_ = state.log.size();
  Batch batch;
  Take(Event(CoordinatorStarted{.wall_unix_ms = ToUnixMs(WallNow())}), &batch);
  RETURN_IF_ERROR(CarryOut(&batch));
  const LoadView load = core_.Load();
  LogInfo(absl::StrCat("recovered ", load.active_evaluations, " evaluations in progress from ",
                       state.snapshot.size(), " snapshot and ", state.log.size(), " log records"));
  return absl::OkStatus();
}

absl::Status Loop::Run(const std::stop_token& stop) {
  while (true) {
    const bool is_stopping = stop.stop_requested();
    MonoTime wake = MonoNow() + std::chrono::seconds(1);
    if (is_refresh_due_)
      wake = std::min(wake, last_refresh_ + options_.refresh_interval);
    const auto deadline = core_.NextDeadline();
    if (deadline.has_value())
      wake = std::min(wake, *deadline);
    if (is_stopping)
      wake = MonoNow();
    std::vector<LoopEvent> events = parts_.mailbox->mailbox().TakeBatch(options_.batch_max, wake);
    parts_.sessions->DeliverWaiting();
    if (events.empty() && is_stopping)
      return ReplaceLog();
    RETURN_IF_ERROR(RunBatch(std::move(events)));
  }
}

absl::Status Loop::RunBatch(std::vector<LoopEvent> events) {
  Batch batch;
  for (const LoopEvent& event : events)
    std::visit([this, &batch](const auto& taken) { Take(taken, &batch); }, event);
  const bool is_time_due = TakeTime(&batch);
  is_refresh_due_ = is_refresh_due_ || is_time_due || !events.empty();
  RETURN_IF_ERROR(CarryOut(&batch));
  if (records_since_snapshot_ >= options_.snapshot_records)
    RETURN_IF_ERROR(ReplaceLog());
  const MonoTime now = MonoNow();
  if (is_refresh_due_ && now - last_refresh_ >= options_.refresh_interval)
    Refresh(now);
  return absl::OkStatus();
}

bool Loop::TakeTime(Batch* batch) {
  const MonoTime now = MonoNow();
  const auto deadline = core_.NextDeadline();
  if (!deadline.has_value() || *deadline > now)
    return false;
  Collect(core_.Handle(TimePassed{.wall_unix_ms = ToUnixMs(WallNow())}, now), batch);
  return true;
}

void Loop::Take(const Event& event, Batch* batch) {
  Collect(core_.Handle(event, MonoNow()), batch);
}

void Loop::Take(const TaskOffered& offered, Batch* batch) {
  v1::RegisterTaskResponse response;
  const std::string& version = offered.task.version();
  const auto in_batch = std::ranges::find(batch->store.tasks, version, &TaskRow::version);
  const absl::StatusOr<TaskRow> known =
      in_batch != batch->store.tasks.end() ? *in_batch : parts_.store->GetTask(version);
  if (known.ok()) {
    if (!response.mutable_task()->ParseFromString(known->record)) {
      batch->answers.emplace_back(offered.request,
                                  absl::DataLossError("the task is damaged in the store"));
      return;
    }
  } else if (absl::IsNotFound(known.status())) {
    batch->store.tasks.push_back({.version = version,
                                  .registered_unix_ms = offered.task.registered_unix_ms(),
                                  .record = offered.task.SerializeAsString()});
    *response.mutable_task() = offered.task;
    response.set_created(true);
  } else {
    batch->answers.emplace_back(offered.request, known.status());
    return;
  }
  batch->answers.emplace_back(offered.request, Reply(std::move(response)));
}

void Loop::Take(const ArtifactOffered& offered, Batch* batch) {
  batch->artifacts.emplace(offered.event.request, offered.row);
  Take(Event(offered.event), batch);
}

void Loop::Take(const WorkersAsked& asked, Batch* batch) {
  batch->workers_asked.push_back(asked.request);
}

void Loop::Take(const LoadAsked& asked, Batch* batch) {
  batch->load_asked.push_back(asked.request);
}

void Loop::Collect(std::vector<Command> commands, Batch* batch) {
  for (Command& command : commands) {
    if (const auto* append = std::get_if<AppendRecord>(&command)) {
      batch->store.records.push_back(EncodeRecord(append->record));
    } else if (const auto* end = std::get_if<EndEvaluation>(&command)) {
      v1::EvaluationRecord record = ToProto(*end);
      batch->store.evaluations.push_back({.evaluation_id = record.evaluation_id(),
                                          .submitted_unix_ms = record.submitted_unix_ms(),
                                          .task_version = record.task_version(),
                                          .record = record.SerializeAsString()});
      batch->ended.emplace_back(end->evaluation_id, std::move(record));
      // Its place among the effects is kept: what came before is shown before.
      batch->effects.push_back(std::move(command));
    } else if (const auto* publish = std::get_if<AnswerPublish>(&command)) {
      const auto row = batch->artifacts.extract(publish->request);
      if (publish->refusal != Refusal::kNone || row.empty()) {
        batch->answers.emplace_back(publish->request, ToStatus(publish->refusal, publish->message));
        continue;
      }
      batch->published.emplace_back(publish->request, row.mapped().key);
      batch->store.artifacts.push_back(std::move(row.mapped()));
    } else {
      batch->effects.push_back(std::move(command));
    }
  }
}

absl::Status Loop::ReplaceLog() {
  std::vector<std::string> snapshot;
  for (const Record& record : core_.Snapshot())
    snapshot.push_back(EncodeRecord(record));
  RETURN_IF_ERROR(parts_.store->ReplaceLog(snapshot));
  records_since_snapshot_ = 0;
  return absl::OkStatus();
}

}  // namespace pike::coordinator
