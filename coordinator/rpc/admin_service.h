#pragma once

#include "coordinator/rpc/service_context.h"
#include "pike/v1/admin.grpc.pb.h"

namespace pike::coordinator {

// The Admin service: every answer is the loop's. Thread-safe.
class AdminService final : public v1::Admin::CallbackService {
 public:
  explicit AdminService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* server_context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* server_context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* server_context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  const ServiceContext context_;
};

}  // namespace pike::coordinator
