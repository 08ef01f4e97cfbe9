#pragma once

#include "coordinator/rpc/service_context.h"
#include "pike/v1/artifact.grpc.pb.h"

namespace pike::coordinator {

// The Artifact service, for workers with a live session. Thread-safe.
class ArtifactService final : public v1::Artifact::CallbackService {
 public:
  explicit ArtifactService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* server_context,
                                   const v1::LookupArtifactRequest* request,
                                   v1::LookupArtifactResponse* response) override;
  grpc::ServerUnaryReactor* Publish(grpc::CallbackServerContext* server_context,
                                    const v1::PublishArtifactRequest* request,
                                    v1::PublishArtifactResponse* response) override;

 private:
  const ServiceContext context_;
};

}  // namespace pike::coordinator
