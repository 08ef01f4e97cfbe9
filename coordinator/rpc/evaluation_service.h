#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "coordinator/core/event.h"
#include "coordinator/rpc/service_context.h"
#include "pike/v1/evaluation.grpc.pb.h"

namespace pike::coordinator {

// The Evaluation service. Thread-safe.
class EvaluationService final : public v1::Evaluation::CallbackService {
 public:
  explicit EvaluationService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* server_context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchResponse>* Watch(grpc::CallbackServerContext* server_context,
                                                     const v1::WatchRequest* request) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* server_context,
                                const v1::GetEvaluationRequest* request,
                                v1::GetEvaluationResponse* response) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* server_context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* server_context,
                                 const v1::ListEvaluationsRequest* request,
                                 v1::ListEvaluationsResponse* response) override;

 private:
  // Checks the request against the store, and keeps its source as a blob.
  absl::StatusOr<EvaluationSubmitted> Admit(const v1::SubmitRequest& request) const;
  absl::StatusOr<v1::EvaluationRecord> Find(const std::string& evaluation_id) const;
  absl::Status ListInto(const v1::ListEvaluationsRequest& request,
                        v1::ListEvaluationsResponse* response) const;

  const ServiceContext context_;
};

}  // namespace pike::coordinator
