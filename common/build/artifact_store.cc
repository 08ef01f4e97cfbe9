#include "common/build/artifact_store.h"

#include <absl/strings/str_cat.h>

#include "common/base/digest.h"

namespace pike::build {

absl::StatusOr<std::optional<std::string>> MemoryArtifactStore::Lookup(const std::string& key) {
  MutexLock lock(&mutex_);
  const auto it = artifact_by_key_.find(key);
  if (it == artifact_by_key_.end())
    return std::optional<std::string>();
  return std::optional<std::string>(it->second);
}

absl::StatusOr<std::string> MemoryArtifactStore::Fetch(const std::string& sha256) {
  MutexLock lock(&mutex_);
  const auto it = bytes_by_sha256_.find(sha256);
  if (it == bytes_by_sha256_.end())
    return absl::NotFoundError(absl::StrCat("no artifact ", sha256));
  return it->second;
}

absl::Status MemoryArtifactStore::Publish(const std::string& key, absl::string_view bytes,
                                          const std::string& toolchain_digest) {
  static_cast<void>(toolchain_digest);
  const std::string sha256 = Sha256Hex(bytes);
  MutexLock lock(&mutex_);
  bytes_by_sha256_.emplace(sha256, std::string(bytes));
  artifact_by_key_.emplace(key, sha256);
  return absl::OkStatus();
}

size_t MemoryArtifactStore::size() const {
  MutexLock lock(&mutex_);
  return artifact_by_key_.size();
}

}  // namespace pike::build
