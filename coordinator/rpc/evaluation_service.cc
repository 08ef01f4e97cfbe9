#include "coordinator/rpc/evaluation_service.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"
#include "coordinator/rpc/evaluation_record.h"
#include "coordinator/rpc/validate.h"
#include "coordinator/rpc/watch_stream.h"

namespace pike::coordinator {
namespace {

// Until tokens exist everyone who can reach the socket is this.
constexpr char kPrincipal[] = "local";
// Evidence can be large; a page stays well below what a client receives.
constexpr size_t kPageBytesMax = size_t{8} << 20;

absl::Status UnknownEvaluation(const std::string& evaluation_id) {
  return absl::NotFoundError(
      absl::StrCat("there is no evaluation \"", evaluation_id.substr(0, 100), "\""));
}

}  // namespace

absl::StatusOr<EvaluationSubmitted> EvaluationService::Admit(
    const v1::SubmitRequest& request) const {
  RETURN_IF_ERROR(CheckSubmit(request));
  ASSIGN_OR_RETURN(const v1::Policy policy, CompletePolicy(request.policy()));
  const absl::StatusOr<TaskRow> row = context_.store->GetTask(request.task_version());
  if (absl::IsNotFound(row.status()))
    return absl::NotFoundError(absl::StrCat("there is no task version ", request.task_version(),
                                            "; register the task first"));
  RETURN_IF_ERROR(row.status());
  v1::TaskRecord task;
  if (!task.ParseFromString(row->record))
    return absl::DataLossError(absl::StrCat("task ", row->version, " is damaged in the store"));
  v1::EvaluationRecord record;
  ASSIGN_OR_RETURN(*record.mutable_candidate_sha256(),
                   context_.blobs->Put(request.candidate_source()));
  record.set_principal(kPrincipal);
  record.set_client_key(request.client_key());
  record.set_task_version(task.version());
  record.set_task_name(task.name());
  record.set_candidate_name(request.candidate_name());
  *record.mutable_policy() = policy;
  record.set_gpu_class(request.gpu_class());
  return EvaluationSubmitted{
      .principal = {kPrincipal},
      .client_key = request.client_key(),
      .request_digest = RequestDigest(request, policy),
      .demand = {.gpu_class = request.gpu_class(), .toolchain_digest = request.toolchain_digest()},
      .times = ToPolicyTimes(policy),
      .payload = MakePayload(record, task),
      .contest = ContestOf(task.version(), policy)};
}

grpc::ServerUnaryReactor* EvaluationService::Submit(grpc::CallbackServerContext* server_context,
                                                    const v1::SubmitRequest* request,
                                                    v1::SubmitResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  const bool is_accepted = context_.pool->TryRun([this, reactor, request, response] {
    absl::StatusOr<EvaluationSubmitted> event = Admit(*request);
    if (!event.ok())
      return reactor->Finish(service::ToGrpcStatus(event.status()));
    AskLoop(context_, reactor, response, [&event](RequestId id) {
      event->request = id;
      return Event(*std::move(event));
    });
  });
  if (!is_accepted)
    reactor->Finish(service::ToGrpcStatus(BusyError()));
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchResponse>* EvaluationService::Watch(
    grpc::CallbackServerContext* /*server_context*/, const v1::WatchRequest* request) {
  const std::optional<EvaluationId> id = ParseEvaluationId(request->evaluation_id());
  if (!id.has_value())
    return WatchStream::Refuse(context_, UnknownEvaluation(request->evaluation_id()));
  return WatchStream::Start(context_, *id);
}

absl::StatusOr<v1::EvaluationRecord> EvaluationService::Find(
    const std::string& evaluation_id) const {
  const std::optional<EvaluationId> id = ParseEvaluationId(evaluation_id);
  if (!id.has_value())
    return UnknownEvaluation(evaluation_id);
  // The board first: what leaves it is in the store by then.
  const auto live = context_.board->Find(*id);
  if (live != nullptr)
    return *live;
  // The store knows ids as we write them, people may leave out zeros.
  const absl::StatusOr<EvaluationRow> row = context_.store->GetEvaluation(ToText(*id));
  if (absl::IsNotFound(row.status()))
    return UnknownEvaluation(evaluation_id);
  RETURN_IF_ERROR(row.status());
  v1::EvaluationRecord record;
  if (!record.ParseFromString(row->record))
    return absl::DataLossError(absl::StrCat(evaluation_id, " is damaged in the store"));
  return record;
}

grpc::ServerUnaryReactor* EvaluationService::Get(grpc::CallbackServerContext* server_context,
                                                 const v1::GetEvaluationRequest* request,
                                                 v1::GetEvaluationResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  RunInPool(context_, reactor, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(*response->mutable_evaluation(), Find(request->evaluation_id()));
    return absl::OkStatus();
  });
  return reactor;
}

grpc::ServerUnaryReactor* EvaluationService::Cancel(grpc::CallbackServerContext* server_context,
                                                    const v1::CancelRequest* request,
                                                    v1::CancelResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  const std::optional<EvaluationId> id = ParseEvaluationId(request->evaluation_id());
  if (!id.has_value()) {
    reactor->Finish(service::ToGrpcStatus(UnknownEvaluation(request->evaluation_id())));
    return reactor;
  }
  AskLoop(context_, reactor, response, [&id](RequestId request_id) {
    return Event(CancelRequested{.request = request_id, .evaluation_id = *id});
  });
  return reactor;
}

absl::Status EvaluationService::ListInto(const v1::ListEvaluationsRequest& request,
                                         v1::ListEvaluationsResponse* response) const {
  const size_t page_size = PageSize(request.page_size());
  // One more than a page, to know whether another page follows.
  EvaluationQuery query{.task_version = request.task_version(),
                        .rows_max = page_size + 1,
                        .bytes_max = kPageBytesMax};
  if (!request.page_token().empty()) {
    ASSIGN_OR_RETURN(const PageStart start, ParsePageToken(request.page_token()));
    query.after = ListPosition{start.unix_ms, start.id};
  }
  std::map<std::tuple<int64_t, std::string>, v1::EvaluationRecord> records;
  for (const auto& live : context_.board->List(query))
    records[{live->submitted_unix_ms(), live->evaluation_id()}] = *live;
  if (!request.active_only()) {
    ASSIGN_OR_RETURN(const std::vector<EvaluationRow> rows, context_.store->ListEvaluations(query));
    for (const EvaluationRow& row : rows) {
      // One that is live again keeps its old row until it ends.
      if (records.contains({row.submitted_unix_ms, row.evaluation_id}))
        continue;
      if (!records[{row.submitted_unix_ms, row.evaluation_id}].ParseFromString(row.record))
        return absl::DataLossError(absl::StrCat(row.evaluation_id, " is damaged in the store"));
    }
  }
  size_t bytes = 0;
  for (auto it = records.rbegin(); it != records.rend(); ++it) {
    const size_t count = static_cast<size_t>(response->evaluations_size());
    const size_t more = it->second.ByteSizeLong();
    if (count == page_size || (count > 0 && bytes + more > kPageBytesMax)) {
      const v1::EvaluationRecord& last = response->evaluations(response->evaluations_size() - 1);
      response->set_next_page_token(ToPageToken({last.submitted_unix_ms(), last.evaluation_id()}));
      break;
    }
    bytes += more;
    response->add_evaluations()->Swap(&it->second);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* EvaluationService::List(grpc::CallbackServerContext* server_context,
                                                  const v1::ListEvaluationsRequest* request,
                                                  v1::ListEvaluationsResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  RunInPool(context_, reactor, [this, request, response] { return ListInto(*request, response); });
  return reactor;
}

}  // namespace pike::coordinator
