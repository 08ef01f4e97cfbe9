#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/server_callback.h>

#include "coordinator/rpc/service_context.h"
#include "pike/v1/evaluation.pb.h"

namespace pike::coordinator {

// One Watch call. A slow reader is sent the latest state only: memory is one record per watcher.
class WatchStream {
 public:
  // The reactors own themselves.
  static grpc::ServerWriteReactor<v1::WatchResponse>* Start(const ServiceContext& context,
                                                            EvaluationId id);
  static grpc::ServerWriteReactor<v1::WatchResponse>* Refuse(const ServiceContext& context,
                                                             const absl::Status& status);
};

}  // namespace pike::coordinator
