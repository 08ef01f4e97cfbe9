#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "pike/v1/artifact.grpc.pb.h"
#include "pike/v1/blob.grpc.pb.h"
#include "pike/v1/worker.grpc.pb.h"

namespace pike::compile_worker {

// The coordinator as a compile worker sees it: a session that says what the test says, blobs and
// artifacts in memory. Thread-safe.
class ScriptedCoordinator final : public v1::Worker::Service,
                                  public v1::Blob::Service,
                                  public v1::Artifact::Service {
 public:
  explicit ScriptedCoordinator(const std::string& target);
  ~ScriptedCoordinator() override;

  std::string AddBlob(const std::string& bytes);
  // False if no worker came in time.
  bool WaitForHello(MonoTime deadline);
  void Send(const v1::CoordinatorMessage& message);
  // Result of a lease, acknowledged.
  std::optional<v1::LeaseResult> WaitForResult(const std::string& lease_id, MonoTime deadline);
  size_t artifacts();

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override;
  grpc::Status Write(grpc::ServerContext* context, grpc::ServerReader<v1::WriteBlobRequest>* reader,
                     v1::WriteBlobResponse* response) override;
  grpc::Status Read(grpc::ServerContext* context, const v1::ReadBlobRequest* request,
                    grpc::ServerWriter<v1::ReadBlobResponse>* writer) override;
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupArtifactRequest* request,
                      v1::LookupArtifactResponse* response) override;
  grpc::Status Publish(grpc::ServerContext* context, const v1::PublishArtifactRequest* request,
                       v1::PublishArtifactResponse* response) override;

 private:
  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;

  Mutex mutex_;
  CondVar changed_;
  Stream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::map<std::string, std::string> blobs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> artifacts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::LeaseResult> results_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace pike::compile_worker
