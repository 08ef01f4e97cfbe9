#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>

#include "common/build/builder.h"
#include "common/service/blob_client.h"
#include "common/service/worker_client.h"

namespace pike::gpu {

// Builds by asking the coordinator for a compile worker: for nodes without a compiler.
// Ownership: client and blobs must outlive it. Thread-safe.
class RemoteBuilder : public build::Builder {
 public:
  // `any_lease` names a lease this worker holds: the coordinator builds for those only.
  RemoteBuilder(service::WorkerClient* client, service::BlobClient* blobs,
                std::function<std::string()> any_lease)
      : client_(client), blobs_(blobs), any_lease_(std::move(any_lease)) {}

  absl::StatusOr<build::BuildProduct> Build(const build::BuildJob& job,
                                            std::stop_token stop) override;

 private:
  service::WorkerClient* const client_;
  service::BlobClient* const blobs_;
  const std::function<std::string()> any_lease_;
};

}  // namespace pike::gpu
