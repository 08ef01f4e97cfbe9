#pragma once

#include <map>
#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/mutex.h"

namespace pike::build {

// The durable index of finished builds and their bytes, as the broker sees it. Blocking; called
// from several threads. Every error means "go on without": a build never fails because of it.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  // Digest of the artifact recorded for `key`; nothing if there is none.
  virtual absl::StatusOr<std::optional<std::string>> Lookup(const std::string& key) = 0;
  // An artifact's bytes. NotFound: no such artifact.
  virtual absl::StatusOr<std::string> Fetch(const std::string& sha256) = 0;
  // Stores the bytes and records them for `key`. The first one published wins; repeating is
  // harmless.
  virtual absl::Status Publish(const std::string& key, absl::string_view bytes,
                               const std::string& toolchain_digest) = 0;
};

// Keeps everything in memory; for tests and for workers without a service.
class MemoryArtifactStore : public ArtifactStore {
 public:
  absl::StatusOr<std::optional<std::string>> Lookup(const std::string& key) override;
  absl::StatusOr<std::string> Fetch(const std::string& sha256) override;
  absl::Status Publish(const std::string& key, absl::string_view bytes,
                       const std::string& toolchain_digest) override;

  size_t size() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> artifact_by_key_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> bytes_by_sha256_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pike::build
