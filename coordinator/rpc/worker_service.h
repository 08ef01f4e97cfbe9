#pragma once

#include "coordinator/rpc/service_context.h"
#include "pike/v1/worker.grpc.pb.h"

namespace pike::coordinator {

// The Worker service: one reactor per stream translates messages to events and back. Thread-safe.
class WorkerService final : public v1::Worker::CallbackService {
 public:
  explicit WorkerService(const ServiceContext& context) : context_(context) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* server_context) override;

 private:
  const ServiceContext context_;
};

}  // namespace pike::coordinator
