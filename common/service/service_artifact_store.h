#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/build/artifact_store.h"
#include "common/service/artifact_client.h"
#include "common/service/blob_client.h"

namespace pike::service {

// The build broker's store as the coordinator keeps it: index by ArtifactClient, bytes by
// BlobClient. Ownership: both must outlive it. Thread-safe.
class ServiceArtifactStore : public build::ArtifactStore {
 public:
  ServiceArtifactStore(ArtifactClient* index, BlobClient* blobs) : index_(index), blobs_(blobs) {}

  absl::StatusOr<std::optional<std::string>> Lookup(const std::string& key) override {
    return index_->Lookup(key);
  }
  absl::StatusOr<std::string> Fetch(const std::string& sha256) override {
    return blobs_->Read(sha256);
  }
  absl::Status Publish(const std::string& key, absl::string_view bytes,
                       const std::string& toolchain_digest) override {
    const absl::StatusOr<std::string> sha256 = blobs_->Write(bytes);
    if (!sha256.ok())
      return sha256.status();
    return index_->Publish(key, *sha256, toolchain_digest).status();
  }

 private:
  ArtifactClient* const index_;
  BlobClient* const blobs_;
};

}  // namespace pike::service
