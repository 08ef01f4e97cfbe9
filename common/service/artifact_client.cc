#include "common/service/artifact_client.h"

#include <chrono>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "common/base/digest.h"
#include "common/service/grpc_status.h"
#include "pike/v1/artifact.grpc.pb.h"

namespace pike::service {
namespace {

constexpr std::chrono::seconds kCallTimeout{20};

}  // namespace

ArtifactClient::ArtifactClient(std::shared_ptr<grpc::Channel> channel,
                               std::function<std::string()> session_id)
    : channel_(std::move(channel)), session_id_(std::move(session_id)) {}

absl::StatusOr<std::optional<std::string>> ArtifactClient::Lookup(const std::string& key) {
  v1::LookupArtifactRequest request;
  request.set_key(key);
  request.set_session_id(session_id_());
  if (request.session_id().empty())
    return absl::UnavailableError("no session with the coordinator");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::LookupArtifactResponse response;
  const grpc::Status status = v1::Artifact::NewStub(channel_)->Lookup(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND)
    return std::optional<std::string>();
  if (!status.ok())
    return FromGrpcStatus(status);
  if (!IsSha256Hex(response.artifact_sha256()))
    return absl::DataLossError("the service sent a malformed digest");
  return std::optional<std::string>(response.artifact_sha256());
}

absl::StatusOr<std::string> ArtifactClient::Publish(const std::string& key,
                                                    const std::string& artifact_sha256,
                                                    const std::string& toolchain_digest) {
  v1::PublishArtifactRequest request;
  request.set_key(key);
  request.set_artifact_sha256(artifact_sha256);
  request.set_toolchain_digest(toolchain_digest);
  request.set_session_id(session_id_());
  if (request.session_id().empty())
    return absl::UnavailableError("no session with the coordinator");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::PublishArtifactResponse response;
  const grpc::Status status =
      v1::Artifact::NewStub(channel_)->Publish(&context, request, &response);
  if (!status.ok())
    return FromGrpcStatus(status);
  return response.artifact_sha256();
}

}  // namespace pike::service
