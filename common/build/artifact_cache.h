#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "common/base/mutex.h"
#include "common/build/build_outcome.h"

namespace pike::build {

// Finished artifacts in a folder of this machine, by build key, bounded in bytes: the least
// recently used go first. Each file carries its digest, so a torn or damaged one counts as absent
// and is removed. Several processes may share a folder; each bounds what it knows of.
// Thread-safe.
class ArtifactCache {
 public:
  // Takes over what lies in `dir`, which is made (mode 0700) if missing.
  static absl::StatusOr<std::unique_ptr<ArtifactCache>> Open(const std::string& dir,
                                                             uint64_t bytes_max);

  // Null if there is none.
  std::shared_ptr<const Artifact> Get(const std::string& key);
  // Keeps an artifact. A full disk only means that it is not kept.
  void Put(const std::string& key, const Artifact& artifact);

  uint64_t bytes() const;

 private:
  struct Entry {
    uint64_t bytes = 0;
    std::list<std::string>::iterator place;  // in `order_`
  };

  ArtifactCache(std::string dir, uint64_t bytes_max);
  void Load();
  std::string PathOf(const std::string& key) const;
  void Remember(const std::string& key, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string dir_;
  const uint64_t bytes_max_;
  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<std::string> order_ ABSL_GUARDED_BY(mutex_);  // keys, least recently used first
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace pike::build
