#pragma once

#include "coordinator/rpc/service_context.h"
#include "pike/v1/task.grpc.pb.h"

namespace pike::coordinator {

// The Task service. Thread-safe.
class TaskService final : public v1::Task::CallbackService {
 public:
  explicit TaskService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* server_context,
                                     const v1::RegisterTaskRequest* request,
                                     v1::RegisterTaskResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* server_context,
                                const v1::GetTaskRequest* request,
                                v1::GetTaskResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* server_context,
                                 const v1::ListTasksRequest* request,
                                 v1::ListTasksResponse* response) override;

 private:
  const ServiceContext context_;
};

}  // namespace pike::coordinator
