#pragma once

#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/support/server_callback.h>

#include "common/service/grpc_status.h"
#include "coordinator/rpc/call_table.h"
#include "coordinator/rpc/evaluation_board.h"
#include "coordinator/rpc/loop_event.h"
#include "coordinator/rpc/session_table.h"
#include "coordinator/rpc/work_pool.h"
#include "coordinator/store/blob_folder.h"
#include "coordinator/store/store.h"

namespace pike::coordinator {

// What the services work with. Nothing is owned; all of it is thread-safe (of the store, the
// look-ups) and outlives the gRPC server.
struct ServiceContext {
  LoopMailbox* mailbox = nullptr;
  CallTable* calls = nullptr;
  EvaluationBoard* board = nullptr;
  SessionTable* sessions = nullptr;
  WorkPool* pool = nullptr;
  Store* store = nullptr;
  const BlobFolder* blobs = nullptr;
};

inline absl::Status BusyError() {
  return absl::ResourceExhaustedError("the coordinator is busy; retry later");
}

// Sends the loop the event that `make_event(request)` returns, and the caller its answer.
template <typename Response, typename MakeEvent>
void AskLoop(const ServiceContext& context, grpc::ServerUnaryReactor* reactor, Response* response,
             const MakeEvent& make_event) {
  const RequestId request = context.calls->Add([reactor, response](absl::StatusOr<Reply> reply) {
    if (reply.ok())
      *response = std::get<Response>(*std::move(reply));
    reactor->Finish(service::ToGrpcStatus(reply.status()));
  });
  if (!context.mailbox->TryPushClient(make_event(request)))
    context.calls->Answer(request, BusyError());
}

// Runs `work`, which returns the call's status, where it may wait for the disk.
template <typename Work>
void RunInPool(const ServiceContext& context, grpc::ServerUnaryReactor* reactor, Work work) {
  const bool is_accepted = context.pool->TryRun(
      [reactor, work = std::move(work)] { reactor->Finish(service::ToGrpcStatus(work())); });
  if (!is_accepted)
    reactor->Finish(service::ToGrpcStatus(BusyError()));
}

}  // namespace pike::coordinator
