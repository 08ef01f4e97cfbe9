#include "cli/client/service_client.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include <grpcpp/grpcpp.h>

#include "common/service/channel.h"
#include "common/service/grpc_status.h"
#include "pike/v1/admin.grpc.pb.h"
#include "pike/v1/evaluation.grpc.pb.h"
#include "pike/v1/task.grpc.pb.h"

namespace pike::cli {
namespace {

// Calls `method` of `stub` and waits.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request, std::chrono::milliseconds timeout) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  Response response;
  const absl::Status status = service::FromGrpcStatus((stub.*method)(&context, request, &response));
  if (!status.ok())
    return status;
  return response;
}

// The part of a response that callers want.
template <typename Response, typename Part>
absl::StatusOr<Part> PartOf(absl::StatusOr<Response> response,
                            const Part& (Response::*part)() const) {
  if (!response.ok())
    return response.status();
  return ((*response).*part)();
}

}  // namespace

struct ServiceClient::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : task(channel), evaluation(channel), admin(channel) {}
  v1::Task::Stub task;
  v1::Evaluation::Stub evaluation;
  v1::Admin::Stub admin;
};

ServiceClient::ServiceClient(std::string target, std::chrono::milliseconds call_timeout)
    : target_(std::move(target)),
      call_timeout_(call_timeout),
      channel_(service::MakeChannel(target_)),
      stubs_(std::make_unique<Stubs>(channel_)) {}

ServiceClient::~ServiceClient() = default;

absl::Status ServiceClient::WaitUntilReachable(std::chrono::milliseconds timeout) {
  if (channel_->WaitForConnected(std::chrono::system_clock::now() + timeout))
    return absl::OkStatus();
  return absl::UnavailableError(UnreachableText(target_));
}

absl::StatusOr<v1::TaskRecord> ServiceClient::RegisterTask(const v1::RegisterTaskRequest& request) {
  return PartOf(Call(stubs_->task, &v1::Task::Stub::Register, request, call_timeout_),
                &v1::RegisterTaskResponse::task);
}

absl::StatusOr<v1::ListTasksResponse> ServiceClient::ListTasks(
    const v1::ListTasksRequest& request) {
  return Call(stubs_->task, &v1::Task::Stub::List, request, call_timeout_);
}

absl::StatusOr<v1::EvaluationRecord> ServiceClient::Submit(const v1::SubmitRequest& request) {
  return PartOf(Call(stubs_->evaluation, &v1::Evaluation::Stub::Submit, request, call_timeout_),
                &v1::SubmitResponse::evaluation);
}

absl::StatusOr<v1::EvaluationRecord> ServiceClient::GetEvaluation(
    const std::string& evaluation_id) {
  v1::GetEvaluationRequest request;
  request.set_evaluation_id(evaluation_id);
  return PartOf(Call(stubs_->evaluation, &v1::Evaluation::Stub::Get, request, call_timeout_),
                &v1::GetEvaluationResponse::evaluation);
}

absl::StatusOr<v1::EvaluationRecord> ServiceClient::Cancel(const std::string& evaluation_id) {
  v1::CancelRequest request;
  request.set_evaluation_id(evaluation_id);
  return PartOf(Call(stubs_->evaluation, &v1::Evaluation::Stub::Cancel, request, call_timeout_),
                &v1::CancelResponse::evaluation);
}

absl::StatusOr<v1::ListEvaluationsResponse> ServiceClient::ListEvaluations(
    const v1::ListEvaluationsRequest& request) {
  return Call(stubs_->evaluation, &v1::Evaluation::Stub::List, request, call_timeout_);
}

absl::StatusOr<v1::ListWorkersResponse> ServiceClient::ListWorkers() {
  return Call(stubs_->admin, &v1::Admin::Stub::ListWorkers, v1::ListWorkersRequest(),
              call_timeout_);
}

absl::StatusOr<v1::WorkerRecord> ServiceClient::DrainWorker(const std::string& worker_id) {
  v1::DrainWorkerRequest request;
  request.set_worker_id(worker_id);
  return PartOf(Call(stubs_->admin, &v1::Admin::Stub::DrainWorker, request, call_timeout_),
                &v1::DrainWorkerResponse::worker);
}

absl::StatusOr<v1::GetStatusResponse> ServiceClient::GetStatus() {
  return Call(stubs_->admin, &v1::Admin::Stub::GetStatus, v1::GetStatusRequest(), call_timeout_);
}

bool IsUnreachable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

std::string UnreachableText(const std::string& target) {
  return absl::StrCat("the service at ", target,
                      " is not reachable: start it with `pike up`, or name another with --service");
}

}  // namespace pike::cli
