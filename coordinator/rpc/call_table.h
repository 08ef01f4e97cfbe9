#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <variant>

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/mutex.h"
#include "coordinator/core/types.h"
#include "pike/v1/admin.pb.h"
#include "pike/v1/artifact.pb.h"
#include "pike/v1/evaluation.pb.h"
#include "pike/v1/task.pb.h"

namespace pike::coordinator {

// What the loop answers with.
using Reply = std::variant<v1::RegisterTaskResponse, v1::SubmitResponse, v1::CancelResponse,
                           v1::PublishArtifactResponse, v1::ListWorkersResponse,
                           v1::DrainWorkerResponse, v1::GetStatusResponse>;

// Callers that wait for the loop. Every `done` is called exactly once, on the thread that answers,
// without a lock held. Thread-safe.
class CallTable {
 public:
  using Done = std::function<void(absl::StatusOr<Reply>)>;

  // After RefuseNew or Close, `done` is called at once.
  RequestId Add(Done done);
  // Ignored for a call that has been answered.
  void Answer(RequestId request, absl::StatusOr<Reply> reply);
  // Answers the calls to come with `status`; those that wait are still answered by the loop.
  void RefuseNew(const absl::Status& status);
  // Answers every call, and those to come, with `status`.
  void Close(const absl::Status& status);

 private:
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<RequestId, Done> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pike::coordinator
