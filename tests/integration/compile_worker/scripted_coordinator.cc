#include "tests/integration/compile_worker/scripted_coordinator.h"

#include "common/base/check.h"
#include "common/base/digest.h"

namespace pike::compile_worker {

ScriptedCoordinator::ScriptedCoordinator(const std::string& target) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(target, grpc::InsecureServerCredentials());
  builder.RegisterService(static_cast<v1::Worker::Service*>(this));
  builder.RegisterService(static_cast<v1::Blob::Service*>(this));
  builder.RegisterService(static_cast<v1::Artifact::Service*>(this));
  server_ = builder.BuildAndStart();
  PIKE_CHECK(server_ != nullptr);
}

ScriptedCoordinator::~ScriptedCoordinator() {
  server_->Shutdown(std::chrono::system_clock::now());
}

std::string ScriptedCoordinator::AddBlob(const std::string& bytes) {
  const std::string sha256 = Sha256Hex(bytes);
  MutexLock lock(&mutex_);
  blobs_[sha256] = bytes;
  return sha256;
}

bool ScriptedCoordinator::WaitForHello(MonoTime deadline) {
  MutexLock lock(&mutex_);
  while (stream_ == nullptr) {
    if (!changed_.WaitUntil(&mutex_, deadline))
      return false;
  }
  return true;
}

void ScriptedCoordinator::Send(const v1::CoordinatorMessage& message) {
  MutexLock lock(&mutex_);
  if (stream_ != nullptr)
    stream_->Write(message);
}

std::optional<v1::LeaseResult> ScriptedCoordinator::WaitForResult(const std::string& lease_id,
                                                                  MonoTime deadline) {
  MutexLock lock(&mutex_);
  while (results_.count(lease_id) == 0) {
    if (!changed_.WaitUntil(&mutex_, deadline))
      return std::nullopt;
  }
  return results_[lease_id];
}

size_t ScriptedCoordinator::artifacts() {
  MutexLock lock(&mutex_);
  return artifacts_.size();
}

grpc::Status ScriptedCoordinator::Session(grpc::ServerContext* context, Stream* stream) {
  static_cast<void>(context);
  v1::WorkerMessage message;
  while (stream->Read(&message)) {
    MutexLock lock(&mutex_);
    if (message.has_hello()) {
      v1::CoordinatorMessage welcome;
      welcome.mutable_welcome()->set_session_id("session");
      welcome.mutable_welcome()->set_heartbeat_interval_ms(1000);
      stream->Write(welcome);
      stream_ = stream;
    } else if (message.has_lease_result()) {
      const v1::LeaseResult& result = message.lease_result();
      results_[result.lease_id()] = result;
      v1::CoordinatorMessage ack;
      ack.mutable_result_ack()->set_lease_id(result.lease_id());
      ack.mutable_result_ack()->set_attempt(result.attempt());
      stream->Write(ack);
    }
    changed_.NotifyAll();
  }
  MutexLock lock(&mutex_);
  if (stream_ == stream)
    stream_ = nullptr;
  return grpc::Status::OK;
}

grpc::Status ScriptedCoordinator::Write(grpc::ServerContext* context,
                                        grpc::ServerReader<v1::WriteBlobRequest>* reader,
                                        v1::WriteBlobResponse* response) {
  static_cast<void>(context);
  std::string bytes;
  v1::WriteBlobRequest request;
  while (reader->Read(&request))
    bytes += request.chunk();
  response->set_size_bytes(bytes.size());
  AddBlob(bytes);
  return grpc::Status::OK;
}

grpc::Status ScriptedCoordinator::Read(grpc::ServerContext* context,
                                       const v1::ReadBlobRequest* request,
                                       grpc::ServerWriter<v1::ReadBlobResponse>* writer) {
  static_cast<void>(context);
  v1::ReadBlobResponse response;
  {
    MutexLock lock(&mutex_);
    const auto it = blobs_.find(request->sha256());
    if (it == blobs_.end())
      return {grpc::StatusCode::NOT_FOUND, "no such blob"};
    response.set_chunk(it->second);
    response.set_size_bytes(it->second.size());
  }
  writer->Write(response);
  return grpc::Status::OK;
}

grpc::Status ScriptedCoordinator::Lookup(grpc::ServerContext* context,
                                         const v1::LookupArtifactRequest* request,
                                         v1::LookupArtifactResponse* response) {
  static_cast<void>(context);
  MutexLock lock(&mutex_);
  const auto it = artifacts_.find(request->key());
  if (it == artifacts_.end())
    return {grpc::StatusCode::NOT_FOUND, "no such artifact"};
  response->set_artifact_sha256(it->second);
  return grpc::Status::OK;
}

grpc::Status ScriptedCoordinator::Publish(grpc::ServerContext* context,
                                          const v1::PublishArtifactRequest* request,
                                          v1::PublishArtifactResponse* response) {
  static_cast<void>(context);
  MutexLock lock(&mutex_);
  artifacts_.emplace(request->key(), request->artifact_sha256());
  response->set_artifact_sha256(artifacts_[request->key()]);
  return grpc::Status::OK;
}

}  // namespace pike::compile_worker
