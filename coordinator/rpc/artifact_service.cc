#include "coordinator/rpc/artifact_service.h"

#include <string>

#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"
#include "coordinator/rpc/validate.h"

namespace pike::coordinator {
namespace {

absl::Status CheckSession(const SessionTable& sessions, const std::string& session_id) {
  if (sessions.IsOpen({session_id}))
    return absl::OkStatus();
  return absl::PermissionDeniedError(
      "session_id is not a live worker session; only connected workers may use artifacts");
}

absl::Status LookUp(const ServiceContext& context, const v1::LookupArtifactRequest& request,
                    v1::LookupArtifactResponse* response) {
  RETURN_IF_ERROR(CheckDigest("key", request.key()));
  RETURN_IF_ERROR(CheckSession(*context.sessions, request.session_id()));
  ASSIGN_OR_RETURN(const ArtifactRow row, context.store->GetArtifact(request.key()));
  if (!context.blobs->Contains(row.artifact_sha256))
    return absl::NotFoundError(absl::StrCat("the artifact of key ", request.key(),
                                            " is not among the blobs any more; build it again"));
  response->set_artifact_sha256(row.artifact_sha256);
  return absl::OkStatus();
}

absl::Status CheckPublish(const ServiceContext& context,
                          const v1::PublishArtifactRequest& request) {
  RETURN_IF_ERROR(CheckDigest("key", request.key()));
  RETURN_IF_ERROR(CheckDigest("artifact_sha256", request.artifact_sha256()));
  RETURN_IF_ERROR(CheckDigest("toolchain_digest", request.toolchain_digest()));
  RETURN_IF_ERROR(CheckSession(*context.sessions, request.session_id()));
  if (!context.blobs->Contains(request.artifact_sha256()))
    return absl::FailedPreconditionError(
        absl::StrCat("there is no blob ", request.artifact_sha256(), "; write it first"));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* ArtifactService::Lookup(grpc::CallbackServerContext* server_context,
                                                  const v1::LookupArtifactRequest* request,
                                                  v1::LookupArtifactResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  RunInPool(context_, reactor,
            [this, request, response] { return LookUp(context_, *request, response); });
  return reactor;
}

grpc::ServerUnaryReactor* ArtifactService::Publish(grpc::CallbackServerContext* server_context,
                                                   const v1::PublishArtifactRequest* request,
                                                   v1::PublishArtifactResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  const absl::Status status = CheckPublish(context_, *request);
  if (!status.ok()) {
    reactor->Finish(service::ToGrpcStatus(status));
    return reactor;
  }
  AskLoop(context_, reactor, response, [request](RequestId id) {
    return ArtifactOffered{.event = {.request = id,
                                     .session = {request->session_id()},
                                     .toolchain_digest = request->toolchain_digest()},
                           .row = {.key = request->key(),
                                   .artifact_sha256 = request->artifact_sha256(),
                                   .toolchain_digest = request->toolchain_digest()}};
  });
  return reactor;
}

}  // namespace pike::coordinator
