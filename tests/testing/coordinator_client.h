#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "pike/v1/admin.pb.h"
#include "pike/v1/artifact.pb.h"
#include "pike/v1/evaluation.pb.h"
#include "pike/v1/task.pb.h"
#include "pike/v1/worker.pb.h"

namespace pike::coordinator {

// A client of a coordinator under test. Every call waits at most some seconds, and waits for the
// service to come up. Keeps gRPC's headers out of the tests.
class CoordinatorClient {
 public:
  explicit CoordinatorClient(const std::string& target);
  ~CoordinatorClient();

  absl::StatusOr<v1::RegisterTaskResponse> Register(const v1::RegisterTaskRequest& request);
  absl::StatusOr<v1::ListTasksResponse> ListTasks(const v1::ListTasksRequest& request);
  absl::StatusOr<v1::GetTaskResponse> GetTask(const std::string& version);
  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request);
  absl::StatusOr<v1::EvaluationRecord> Get(const std::string& evaluation_id);
  absl::StatusOr<v1::EvaluationRecord> Cancel(const std::string& evaluation_id);
  absl::StatusOr<v1::ListEvaluationsResponse> List(const v1::ListEvaluationsRequest& request);
  // All that is shown until the stream ends. `on_shown` sees each as it comes; false ends the
  // watch.
  using OnShown = std::function<bool(const v1::EvaluationRecord&)>;
  absl::StatusOr<std::vector<v1::EvaluationRecord>> Watch(const std::string& evaluation_id,
                                                          const OnShown& on_shown = nullptr);
  absl::StatusOr<uint64_t> WriteBlob(const std::string& sha256,
                                     const std::vector<std::string>& chunks);
  absl::StatusOr<std::string> ReadBlob(const std::string& sha256);
  absl::StatusOr<std::string> Lookup(const v1::LookupArtifactRequest& request);
  absl::StatusOr<std::string> Publish(const v1::PublishArtifactRequest& request);
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers();
  absl::StatusOr<v1::WorkerRecord> Drain(const std::string& worker_id);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  // One request and its first answer as bytes, for services without stubs here.
  absl::StatusOr<std::string> CallRaw(const std::string& method, const std::string& request);

 private:
  struct Stubs;
  std::unique_ptr<Stubs> stubs_;
};

// A worker that says what the test tells it to.
class ScriptedWorker {
 public:
  // Opens a stream and sends `hello`.
  ScriptedWorker(const std::string& target, const v1::Hello& hello);
  // Breaks the stream.
  ~ScriptedWorker();

  // The next message, skipping acknowledgements. An empty message is the end of the stream.
  v1::CoordinatorMessage Read();
  // The next message of any kind.
  v1::CoordinatorMessage ReadAny();
  void Send(const v1::WorkerMessage& message);
  void SendCompiled(const v1::Lease& lease);
  void SendVerdict(const v1::Lease& lease, v1::VerdictKind kind);
  // Ends our side and returns the status of the stream.
  absl::Status Finish();

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

v1::Hello CompileHello(const std::string& worker_id);
v1::Hello GpuHello(const std::string& worker_id);

}  // namespace pike::coordinator
