#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "pike/v1/admin.pb.h"
#include "pike/v1/evaluation.pb.h"
#include "pike/v1/task.pb.h"

namespace grpc {
class Channel;
}

namespace pike::cli {

// The calls this command makes, each blocking until its answer or the deadline.
// Errors are the service's own: code and message. Unavailable and DeadlineExceeded: it is not
// there. The channel connects again by itself after the service restarted. Thread-safe.
class ServiceClient {
 public:
  // Does not connect yet.
  explicit ServiceClient(std::string target,
                         std::chrono::milliseconds call_timeout = std::chrono::seconds(5));
  ~ServiceClient();
  ServiceClient(const ServiceClient&) = delete;
  ServiceClient& operator=(const ServiceClient&) = delete;

  // Connects. Unavailable, with what to do, if nothing answers in time.
  absl::Status WaitUntilReachable(std::chrono::milliseconds timeout);

  absl::StatusOr<v1::TaskRecord> RegisterTask(const v1::RegisterTaskRequest& request);
  absl::StatusOr<v1::ListTasksResponse> ListTasks(const v1::ListTasksRequest& request);
  absl::StatusOr<v1::EvaluationRecord> Submit(const v1::SubmitRequest& request);
  absl::StatusOr<v1::EvaluationRecord> GetEvaluation(const std::string& evaluation_id);
  absl::StatusOr<v1::EvaluationRecord> Cancel(const std::string& evaluation_id);
  absl::StatusOr<v1::ListEvaluationsResponse> ListEvaluations(
      const v1::ListEvaluationsRequest& request);
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers();
  absl::StatusOr<v1::WorkerRecord> DrainWorker(const std::string& worker_id);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();

  const std::string& target() const { return target_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  struct Stubs;

  const std::string target_;
  const std::chrono::milliseconds call_timeout_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stubs> stubs_;
};

// Whether `status` says that the service is not there, rather than what it thinks of a request.
bool IsUnreachable(const absl::Status& status);

// The line for a service that does not answer: where it was looked for and how to start it.
std::string UnreachableText(const std::string& target);

}  // namespace pike::cli
