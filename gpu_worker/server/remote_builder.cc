#include "gpu_worker/server/remote_builder.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"
#include "common/build/build_record.h"

namespace pike::gpu {

absl::StatusOr<build::BuildProduct> RemoteBuilder::Build(const build::BuildJob& job,
                                                         std::stop_token stop) {
  v1::BuildRequest request;
  ASSIGN_OR_RETURN(const std::string sha256, blobs_->Write(SerializeBuildRequest(job.request)));
  if (stop.stop_requested())
    return absl::CancelledError("nobody waits for the build");
  request.set_request_sha256(sha256);
  request.set_lease_id(any_lease_());
  request.set_arch(job.arch);
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(job.deadline - MonoNow()).count();
  request.set_timeout_ms(static_cast<uint32_t>(std::max<int64_t>(1, left)));
  ASSIGN_OR_RETURN(v1::BuildReply reply, client_->RequestBuild(std::move(request), job.deadline));
  if (!reply.infra_error().empty())
    return absl::UnavailableError(EscapeLine(reply.infra_error()));
  build::BuildProduct product;
  if (reply.build().has_error()) {
    product.failure = build::FailureOfRecord(reply.build());
    return product;
  }
  ASSIGN_OR_RETURN(std::string bytes, blobs_->Read(reply.build().artifact_sha256()));
  product.artifact =
      std::make_shared<build::Artifact>(reply.build().artifact_sha256(), std::move(bytes));
  product.is_published = true;
  return product;
}

}  // namespace pike::gpu
