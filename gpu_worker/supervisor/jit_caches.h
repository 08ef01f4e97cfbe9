#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "gpu_worker/supervisor/folder_copy.h"
#include "gpu_worker/supervisor/work_folder.h"

namespace pike::gpu {

struct JitCachesOptions {
  std::string cache_dir;                 // on a disk rather than in memory
  int64_t bytes_max = int64_t{2} << 30;  // of all; the least recently used go first
  size_t count_max = 64;                 // likewise
  int64_t entry_bytes_max = int64_t{512} << 20;
};

// The key of one candidate's compile caches: its bytes and all that decides what is compiled.
struct JitCacheKey {
  absl::string_view candidate_source;
  absl::string_view task_version;  // decides shapes
  absl::string_view toolchain_digest;
  absl::string_view gpu_class;
  absl::string_view arch;

  std::string Digest() const;
};

// What the throw-away runners of candidates compiled, kept as long as this worker lives, so that a
// candidate that is evaluated again (a retry, a confirmation) need not compile again. What is kept
// is the candidate's own doing and only ever read for the same candidate: it can poison nobody
// else. Thread-safe.
class JitCaches {
 public:
  // A kept folder. It stays for as long as anyone holds it.
  class Entry {
   public:
    Entry(WorkFolder* parent, std::string name, UniqueFd folder)
        : parent_(parent), name_(std::move(name)), folder_(std::move(folder)) {}
    ~Entry() { parent_->Remove(name_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    const UniqueFd& folder() const { return folder_; }

   private:
    WorkFolder* const parent_;
    const std::string name_;
    const UniqueFd folder_;
  };

  // Removes what dead predecessors left in the folder.
  static absl::StatusOr<std::unique_ptr<JitCaches>> Create(JitCachesOptions options);

  // Null if there is none. REQUIRES: the entry does not outlive us.
  std::shared_ptr<const Entry> Get(const std::string& digest);
  // Keeps a copy of `folder` unless there is one already. What is too large, or does not fit on the
  // disk, is not kept.
  void Put(const std::string& digest, const UniqueFd& folder);

 private:
  struct Kept {
    std::shared_ptr<const Entry> entry;
    int64_t bytes = 0;
    std::list<std::string>::iterator place;  // in `order_`
  };

  JitCaches(JitCachesOptions options, std::unique_ptr<WorkFolder> folder)
      : options_(std::move(options)), folder_(std::move(folder)) {}
  std::string NewName();
  absl::StatusOr<Kept> Copy(const UniqueFd& from);

  const JitCachesOptions options_;
  const std::unique_ptr<WorkFolder> folder_;
  Mutex mutex_;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<std::string> order_ ABSL_GUARDED_BY(mutex_);  // digests, least recently used first
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pike::gpu
