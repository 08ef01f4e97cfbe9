#include "coordinator/rpc/admin_service.h"

#include "coordinator/rpc/validate.h"

namespace pike::coordinator {

grpc::ServerUnaryReactor* AdminService::ListWorkers(grpc::CallbackServerContext* server_context,
                                                    const v1::ListWorkersRequest* /*request*/,
                                                    v1::ListWorkersResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  AskLoop(context_, reactor, response, [](RequestId id) { return WorkersAsked{id}; });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::DrainWorker(grpc::CallbackServerContext* server_context,
                                                    const v1::DrainWorkerRequest* request,
                                                    v1::DrainWorkerResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  const absl::Status status = CheckWorkerId(request->worker_id());
  if (!status.ok()) {
    reactor->Finish(service::ToGrpcStatus(status));
    return reactor;
  }
  AskLoop(context_, reactor, response, [request](RequestId id) {
    return Event(DrainRequested{
        .request = id, .worker_id = {request->worker_id()}, .reason = "drained by its owner"});
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* server_context,
                                                  const v1::GetStatusRequest* /*request*/,
                                                  v1::GetStatusResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  AskLoop(context_, reactor, response, [](RequestId id) { return LoadAsked{id}; });
  return reactor;
}

}  // namespace pike::coordinator
