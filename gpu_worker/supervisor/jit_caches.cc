#include "gpu_worker/supervisor/jit_caches.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace pike::gpu {

std::string JitCacheKey::Digest() const {
  // Digests in the place of texts: no text can be taken for two others.
  return Sha256Hex(absl::StrCat(Sha256Hex(candidate_source), Sha256Hex(task_version),
                                Sha256Hex(toolchain_digest), Sha256Hex(gpu_class),
                                Sha256Hex(arch)));
}

absl::StatusOr<std::unique_ptr<JitCaches>> JitCaches::Create(JitCachesOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkFolder> folder,
                   WorkFolder::Create(options.cache_dir, "jit"));
  return std::unique_ptr<JitCaches>(new JitCaches(std::move(options), std::move(folder)));
}

std::shared_ptr<const JitCaches::Entry> JitCaches::Get(const std::string& digest) {
  MutexLock lock(&mutex_);
  const auto found = kept_.find(digest);
  if (found == kept_.end())
    return nullptr;
  order_.splice(order_.end(), order_, found->second.place);
  return found->second.entry;
}

void JitCaches::Put(const std::string& digest, const UniqueFd& folder) {
  {
    MutexLock lock(&mutex_);
    if (kept_.contains(digest))
      return;
  }
  absl::StatusOr<Kept> kept = Copy(folder);
  if (!kept.ok()) {
    LogWarning(absl::StrCat("compile caches are not kept: ", kept.status().message()));
    return;
  }
  std::vector<std::shared_ptr<const Entry>> evicted;  // their files go without the lock
  MutexLock lock(&mutex_);
  if (kept_.contains(digest)) {
    evicted.push_back(std::move(kept->entry));
    return;
  }
  kept->place = order_.insert(order_.end(), digest);
  bytes_ += kept->bytes;
  kept_.emplace(digest, *std::move(kept));
  while (kept_.size() > options_.count_max || bytes_ > options_.bytes_max) {
    const auto oldest = kept_.find(order_.front());
    bytes_ -= oldest->second.bytes;
    evicted.push_back(std::move(oldest->second.entry));
    kept_.erase(oldest);
    order_.pop_front();
  }
}

std::string JitCaches::NewName() {
  MutexLock lock(&mutex_);
  return absl::StrCat(++last_number_);
}

absl::StatusOr<JitCaches::Kept> JitCaches::Copy(const UniqueFd& from) {
  const std::string name = NewName();
  RETURN_IF_ERROR(folder_->Make(name));
  Kept kept;
  // From here on it is removed whatever happens.
  kept.entry = std::make_shared<Entry>(
      folder_.get(), name, OpenFolderAt(AT_FDCWD, folder_->PathOf(name)).value_or(UniqueFd()));
  FolderCopyOptions options;
  options.bytes_max = options_.entry_bytes_max;
  options.owner = ::geteuid();
  ASSIGN_OR_RETURN(kept.bytes, CopyFolder(from, kept.entry->folder(), options));
  return kept;
}

}  // namespace pike::gpu
