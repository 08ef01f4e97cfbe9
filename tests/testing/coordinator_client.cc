#include "tests/testing/coordinator_client.h"

#include <chrono>
#include <utility>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/base/digest.h"
#include "common/service/channel.h"
#include "common/service/grpc_status.h"
#include "pike/v1/admin.grpc.pb.h"
#include "pike/v1/artifact.grpc.pb.h"
#include "pike/v1/blob.grpc.pb.h"
#include "pike/v1/evaluation.grpc.pb.h"
#include "pike/v1/task.grpc.pb.h"
#include "pike/v1/worker.grpc.pb.h"

namespace pike::coordinator {
namespace {

constexpr std::chrono::seconds kCallTimeout{60};

void Prepare(grpc::ClientContext* context) {
  context->set_wait_for_ready(true);
  context->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
}

// Makes one unary call.
template <typename Response, typename Stub, typename Method, typename Request>
absl::StatusOr<Response> Call(Stub* stub, Method method, const Request& request) {
  grpc::ClientContext context;
  Prepare(&context);
  Response response;
  const grpc::Status status = (stub->*method)(&context, request, &response);
  if (!status.ok())
    return service::FromGrpcStatus(status);
  return response;
}

}  // namespace

struct CoordinatorClient::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : task(channel),
        evaluation(channel),
        blob(channel),
        artifact(channel),
        admin(channel),
        generic(channel) {}

  v1::Task::Stub task;
  v1::Evaluation::Stub evaluation;
  v1::Blob::Stub blob;
  v1::Artifact::Stub artifact;
  v1::Admin::Stub admin;
  grpc::GenericStub generic;
};

CoordinatorClient::CoordinatorClient(const std::string& target)
    : stubs_(std::make_unique<Stubs>(service::MakeChannel(target))) {}
CoordinatorClient::~CoordinatorClient() = default;

absl::StatusOr<v1::RegisterTaskResponse> CoordinatorClient::Register(
    const v1::RegisterTaskRequest& request) {
  return Call<v1::RegisterTaskResponse>(&stubs_->task, &v1::Task::Stub::Register, request);
}

absl::StatusOr<v1::ListTasksResponse> CoordinatorClient::ListTasks(
    const v1::ListTasksRequest& request) {
  return Call<v1::ListTasksResponse>(&stubs_->task, &v1::Task::Stub::List, request);
}

absl::StatusOr<v1::GetTaskResponse> CoordinatorClient::GetTask(const std::string& version) {
  v1::GetTaskRequest request;
  request.set_version(version);
  return Call<v1::GetTaskResponse>(&stubs_->task, &v1::Task::Stub::Get, request);
}

absl::StatusOr<v1::SubmitResponse> CoordinatorClient::Submit(const v1::SubmitRequest& request) {
  return Call<v1::SubmitResponse>(&stubs_->evaluation, &v1::Evaluation::Stub::Submit, request);
}

absl::StatusOr<v1::EvaluationRecord> CoordinatorClient::Get(const std::string& evaluation_id) {
  v1::GetEvaluationRequest request;
  request.set_evaluation_id(evaluation_id);
  auto response =
      Call<v1::GetEvaluationResponse>(&stubs_->evaluation, &v1::Evaluation::Stub::Get, request);
  if (!response.ok())
    return response.status();
  return response->evaluation();
}

absl::StatusOr<v1::EvaluationRecord> CoordinatorClient::Cancel(const std::string& evaluation_id) {
  v1::CancelRequest request;
  request.set_evaluation_id(evaluation_id);
  auto response =
      Call<v1::CancelResponse>(&stubs_->evaluation, &v1::Evaluation::Stub::Cancel, request);
  if (!response.ok())
    return response.status();
  return response->evaluation();
}

absl::StatusOr<v1::ListEvaluationsResponse> CoordinatorClient::List(
    const v1::ListEvaluationsRequest& request) {
  return Call<v1::ListEvaluationsResponse>(&stubs_->evaluation, &v1::Evaluation::Stub::List,
                                           request);
}

absl::StatusOr<std::vector<v1::EvaluationRecord>> CoordinatorClient::Watch(
    const std::string& evaluation_id, const OnShown& on_shown) {
  grpc::ClientContext context;
  Prepare(&context);
  v1::WatchRequest request;
  request.set_evaluation_id(evaluation_id);
  const auto reader = stubs_->evaluation.Watch(&context, request);
  std::vector<v1::EvaluationRecord> shown;
  v1::WatchResponse response;
  bool is_wanted = true;
  while (is_wanted && reader->Read(&response)) {
    shown.push_back(response.evaluation());
    is_wanted = on_shown == nullptr || on_shown(shown.back());
  }
  if (!is_wanted)
    context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (is_wanted && !status.ok())
    return service::FromGrpcStatus(status);
  return shown;
}

absl::StatusOr<uint64_t> CoordinatorClient::WriteBlob(const std::string& sha256,
                                                      const std::vector<std::string>& chunks) {
  grpc::ClientContext context;
  Prepare(&context);
  v1::WriteBlobResponse response;
  const auto writer = stubs_->blob.Write(&context, &response);
  v1::WriteBlobRequest request;
  request.set_sha256(sha256);
  for (const std::string& chunk : chunks) {
    request.set_chunk(chunk);
    if (!writer->Write(request))
      break;
    request.clear_sha256();
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok())
    return service::FromGrpcStatus(status);
  return response.size_bytes();
}

absl::StatusOr<std::string> CoordinatorClient::ReadBlob(const std::string& sha256) {
  grpc::ClientContext context;
  Prepare(&context);
  v1::ReadBlobRequest request;
  request.set_sha256(sha256);
  const auto reader = stubs_->blob.Read(&context, request);
  std::string bytes;
  v1::ReadBlobResponse response;
  while (reader->Read(&response))
    bytes += response.chunk();
  const grpc::Status status = reader->Finish();
  if (!status.ok())
    return service::FromGrpcStatus(status);
  return bytes;
}

absl::StatusOr<std::string> CoordinatorClient::Lookup(const v1::LookupArtifactRequest& request) {
  auto response =
      Call<v1::LookupArtifactResponse>(&stubs_->artifact, &v1::Artifact::Stub::Lookup, request);
  if (!response.ok())
    return response.status();
  return response->artifact_sha256();
}

absl::StatusOr<std::string> CoordinatorClient::Publish(const v1::PublishArtifactRequest& request) {
  auto response =
      Call<v1::PublishArtifactResponse>(&stubs_->artifact, &v1::Artifact::Stub::Publish, request);
  if (!response.ok())
    return response.status();
  return response->artifact_sha256();
}

absl::StatusOr<v1::ListWorkersResponse> CoordinatorClient::ListWorkers() {
  return Call<v1::ListWorkersResponse>(&stubs_->admin, &v1::Admin::Stub::ListWorkers,
                                       v1::ListWorkersRequest());
}

absl::StatusOr<v1::WorkerRecord> CoordinatorClient::Drain(const std::string& worker_id) {
  v1::DrainWorkerRequest request;
  request.set_worker_id(worker_id);
  auto response =
      Call<v1::DrainWorkerResponse>(&stubs_->admin, &v1::Admin::Stub::DrainWorker, request);
  if (!response.ok())
    return response.status();
  return response->worker();
}

absl::StatusOr<v1::GetStatusResponse> CoordinatorClient::GetStatus() {
  return Call<v1::GetStatusResponse>(&stubs_->admin, &v1::Admin::Stub::GetStatus,
                                     v1::GetStatusRequest());
}

absl::StatusOr<std::string> CoordinatorClient::CallRaw(const std::string& method,
                                                       const std::string& request) {
  grpc::ClientContext context;
  Prepare(&context);
  grpc::CompletionQueue queue;
  const auto stream = stubs_->generic.PrepareCall(&context, method, &queue);
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const grpc::Slice slice(request);
  grpc::ByteBuffer response;
  stream->StartCall(nullptr);
  bool is_fine = await();
  if (is_fine) {
    stream->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    is_fine = await();
  }
  if (is_fine) {
    stream->Read(&response, nullptr);
    is_fine = await();
  }
  grpc::Status status;
  stream->Finish(&status, nullptr);
  await();
  if (!is_fine)
    return service::FromGrpcStatus(status);
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (response.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices)
      bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return bytes;
}

struct ScriptedWorker::Stream {
  explicit Stream(const std::string& target) : stub(service::MakeChannel(target)) {
    Prepare(&context);
    call = stub.Session(&context);
  }

  v1::Worker::Stub stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> call;
  bool is_finished = false;
};

ScriptedWorker::ScriptedWorker(const std::string& target, const v1::Hello& hello)
    : stream_(std::make_unique<Stream>(target)) {
  v1::WorkerMessage message;
  *message.mutable_hello() = hello;
  Send(message);
}

ScriptedWorker::~ScriptedWorker() {
  if (stream_->is_finished)
    return;
  stream_->context.TryCancel();
  stream_->call->Finish();
}

v1::CoordinatorMessage ScriptedWorker::ReadAny() {
  v1::CoordinatorMessage message;
  if (!stream_->call->Read(&message))
    message.Clear();
  return message;
}

v1::CoordinatorMessage ScriptedWorker::Read() {
  v1::CoordinatorMessage message = ReadAny();
  while (message.has_result_ack())
    message = ReadAny();
  return message;
}

void ScriptedWorker::Send(const v1::WorkerMessage& message) {
  stream_->call->Write(message);
}

void ScriptedWorker::SendCompiled(const v1::Lease& lease) {
  v1::WorkerMessage message;
  v1::LeaseResult* result = message.mutable_lease_result();
  result->set_lease_id(lease.lease_id());
  result->set_attempt(lease.attempt());
  result->mutable_times()->set_compile_ms(12);
  v1::BuildRecord* build = result->mutable_compiled()->add_builds();
  build->set_name("ext");
  build->set_key(Sha256Hex("key"));
  build->set_artifact_sha256(Sha256Hex("artifact"));
  Send(message);
}

void ScriptedWorker::SendVerdict(const v1::Lease& lease, v1::VerdictKind kind) {
  v1::WorkerMessage message;
  v1::LeaseResult* result = message.mutable_lease_result();
  result->set_lease_id(lease.lease_id());
  result->set_attempt(lease.attempt());
  result->mutable_times()->set_measure_ms(34);
  result->mutable_verdict()->set_kind(kind);
  result->mutable_verdict()->mutable_measurement()->set_speedup(2.5);
  Send(message);
}

absl::Status ScriptedWorker::Finish() {
  stream_->call->WritesDone();
  while (ReadAny().message_case() != v1::CoordinatorMessage::MESSAGE_NOT_SET) {
  }
  stream_->is_finished = true;
  return service::FromGrpcStatus(stream_->call->Finish());
}

v1::Hello CompileHello(const std::string& worker_id) {
  v1::Hello hello;
  hello.set_worker_id(worker_id);
  hello.set_kind(v1::WORKER_KIND_COMPILE);
  hello.set_host("test");
  hello.set_slots(2);
  hello.set_can_build(true);
  hello.mutable_toolchain()->set_digest(Sha256Hex("toolchain"));
  hello.mutable_toolchain()->set_runtime_digest(Sha256Hex("runtime"));
  return hello;
}

v1::Hello GpuHello(const std::string& worker_id) {
  v1::Hello hello = CompileHello(worker_id);
  hello.set_kind(v1::WORKER_KIND_GPU);
  hello.set_slots(1);
  v1::Device* device = hello.add_devices();
  device->set_device_id("cpu");
  device->set_gpu_class("cpu");
  device->set_arch("cpu");
  return hello;
}

}  // namespace pike::coordinator
