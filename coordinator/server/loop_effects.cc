// What the loop does once a batch is durable.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include <absl/strings/str_cat.h>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"
#include "coordinator/rpc/convert.h"
#include "coordinator/rpc/evaluation_record.h"
#include "coordinator/server/loop.h"

namespace pike::coordinator {

template <typename Send>
void Loop::CarryOut(const Send& command) {
  parts_.sessions->Send(command.session, ToProto(command));
}

absl::Status Loop::CarryOut(Batch* batch) {
  if (!batch->store.IsEmpty()) {
    const MonoTime start = MonoNow();
    RETURN_IF_ERROR(parts_.store->Append(batch->store));
    parts_.metrics->ObserveCommit(std::chrono::duration<double>(MonoNow() - start).count(),
                                  batch->store.records.size());
    records_since_snapshot_ += batch->store.records.size();
  }
  auto ended = batch->ended.begin();
  for (const Command& command : batch->effects) {
    if (std::holds_alternative<EndEvaluation>(command)) {
      queued_.erase(ended->first);
      parts_.metrics->CountEnded(ended->second);
      parts_.board->End(ended->first, std::move(ended->second));
      ++ended;
      continue;
    }
    std::visit([this](const auto& effect) { CarryOut(effect); }, command);
  }
  for (auto& [request, answer] : batch->answers)
    parts_.calls->Answer(request, std::move(answer));
  for (const auto& [request, key] : batch->published) {
    // Another worker may have been first, in this batch too: the store knows.
    const absl::StatusOr<ArtifactRow> row = parts_.store->GetArtifact(key);
    v1::PublishArtifactResponse response;
    if (row.ok())
      response.set_artifact_sha256(row->artifact_sha256);
    parts_.calls->Answer(request, row.ok() ? absl::StatusOr<Reply>(std::move(response))
                                           : absl::StatusOr<Reply>(row.status()));
  }
  for (const RequestId request : batch->workers_asked)
    parts_.calls->Answer(request, Reply(ListWorkers()));
  for (const RequestId request : batch->load_asked)
    parts_.calls->Answer(request, DescribeLoad());
  return absl::OkStatus();
}

void Loop::CarryOut(const AnswerSubmit& command) {
  if (command.outcome == SubmitOutcome::kRefused)
    return parts_.calls->Answer(command.request, ToStatus(command.refusal, command.message));
  // Whoever knows the id can watch it.
  if (parts_.board->Find(command.evaluation_id) == nullptr)
    ShowPosition(command.evaluation_id);
  absl::StatusOr<v1::EvaluationRecord> record = Find(command.evaluation_id);
  if (!record.ok())
    return parts_.calls->Answer(command.request, record.status());
  v1::SubmitResponse response;
  *response.mutable_evaluation() = *std::move(record);
  response.set_created(command.outcome == SubmitOutcome::kAccepted);
  parts_.calls->Answer(command.request, Reply(std::move(response)));
}

void Loop::CarryOut(const AnswerCancel& command) {
  absl::StatusOr<v1::EvaluationRecord> record = Find(command.evaluation_id);
  if (!record.ok())
    return parts_.calls->Answer(command.request, record.status());
  v1::CancelResponse response;
  *response.mutable_evaluation() = *std::move(record);
  parts_.calls->Answer(command.request, Reply(std::move(response)));
}

void Loop::CarryOut(const AnswerDrain& command) {
  const v1::ListWorkersResponse all = ListWorkers();
  const auto found = std::ranges::find(all.workers(), command.worker_id.value,
                                       [](const auto& worker) { return worker.worker_id(); });
  if (!command.found || found == all.workers().end())
    return parts_.calls->Answer(command.request, absl::NotFoundError(absl::StrCat(
                                                     "there is no worker ", command.worker_id.value,
                                                     "; `pike workers` lists them")));
  v1::DrainWorkerResponse response;
  *response.mutable_worker() = *found;
  parts_.calls->Answer(command.request, Reply(std::move(response)));
}

void Loop::CarryOut(const NotifyStage& command) {
  std::optional<EvaluationView> view = core_.FindEvaluation(command.evaluation_id);
  if (!view.has_value())
    return;  // it ended later in the same batch, which shows more
  view->stage = command.stage;
  view->queue_position = command.queue_position;
  view->attempt = command.attempt;
  if (command.queue_position > 0)
    queued_.insert(command.evaluation_id);
  else
    queued_.erase(command.evaluation_id);
  parts_.board->Show(command.evaluation_id, ToProto(*view));
}

void Loop::CarryOut(const CloseSession& command) {
  parts_.sessions->Close(command.session, absl::AbortedError(command.reason));
}

void Loop::CarryOut(const SendRefused& command) {
  parts_.sessions->Send(command.session, ToProto(command));
  parts_.sessions->Close(command.session, absl::FailedPreconditionError(command.reason));
}

void Loop::CarryOut(const ObserveQueueWait& command) {
  parts_.metrics->ObserveQueueWait(command.stage, command.wait);
}

void Loop::CarryOut(const CountRetry& command) {
  parts_.metrics->CountRetry(command.reason);
}

void Loop::CarryOut(const ReportCanaries& command) {
  parts_.metrics->CountCanaries(command.outcome, command.withdrawn);
  const std::string& worker = command.worker_id.value;
  if (command.outcome == CanaryOutcome::kPassed)
    return LogInfo(absl::StrCat("worker ", worker, " passed its canaries: ", command.text));
  LogError(absl::StrCat("worker ", worker, " gets no more work: ", EscapeLine(command.text), "; ",
                        command.withdrawn, " verdicts of it are queued again"));
}

absl::StatusOr<v1::EvaluationRecord> Loop::Find(EvaluationId id) {
  const std::optional<EvaluationView> view = core_.FindEvaluation(id);
  if (view.has_value())
    return ToProto(*view);
  const absl::StatusOr<EvaluationRow> row = parts_.store->GetEvaluation(ToText(id));
  if (absl::IsNotFound(row.status()))
    return absl::NotFoundError(absl::StrCat("there is no evaluation ", ToText(id)));
  RETURN_IF_ERROR(row.status());
  v1::EvaluationRecord record;
  if (!record.ParseFromString(row->record))
    return absl::DataLossError(absl::StrCat(ToText(id), " is damaged in the store"));
  return record;
}

v1::ListWorkersResponse Loop::ListWorkers() const {
  v1::ListWorkersResponse response;
  for (const WorkerView& view : core_.Workers())
    *response.add_workers() = ToProto(view);
  std::ranges::sort(*response.mutable_workers(), {}, [](const v1::WorkerRecord& worker) {
    return std::make_tuple(worker.kind(), worker.worker_id());
  });
  return response;
}

absl::StatusOr<Reply> Loop::DescribeLoad() {
  const LoadView load = core_.Load();
  v1::GetStatusResponse response;
  response.set_queued_compile(load.queued_compile);
  response.set_queued_run(load.queued_run);
  response.set_leases(load.leases_compile + load.leases_run + load.leases_build);
  response.set_active_evaluations(load.active_evaluations);
  response.set_ended_evaluations(load.ended_evaluations);
  response.set_version(options_.version);
  return Reply(std::move(response));
}

void Loop::ShowPosition(EvaluationId id) {
  const std::optional<EvaluationView> view = core_.FindEvaluation(id);
  if (view.has_value())
    parts_.board->Show(id, ToProto(*view));
}

// The core tells of stages; places in a queue move with every departure and are shown a few times a
// second: of the oldest ones, and of those that someone watches.
void Loop::Refresh(MonoTime now) {
  last_refresh_ = now;
  is_refresh_due_ = false;
  size_t shown = 0;
  for (const EvaluationId id : queued_) {
    if (shown++ == options_.positions_max)
      break;
    ShowPosition(id);
  }
  if (queued_.size() > options_.positions_max) {
    // Each round goes on where the last one stopped.
    for (const EvaluationId id : parts_.board->Watched(last_watched_, options_.positions_max)) {
      ShowPosition(id);
      last_watched_ = id;
    }
  }
  parts_.metrics->SetLoad(core_.Load());
  parts_.metrics->SetWorkers(core_.Workers());
}

}  // namespace pike::coordinator
