#include "common/build/artifact_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"

namespace pike::build {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigestBytes = 64;  // hex, then a newline, then the artifact
constexpr size_t kFileBytesMax = size_t{1} << 30;

}  // namespace

ArtifactCache::ArtifactCache(std::string dir, uint64_t bytes_max)
    : dir_(std::move(dir)), bytes_max_(bytes_max) {}

absl::StatusOr<std::unique_ptr<ArtifactCache>> ArtifactCache::Open(const std::string& dir,
                                                                   uint64_t bytes_max) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (!error)
    fs::permissions(dir, fs::perms::owner_all, error);
  if (error)
    return absl::FailedPreconditionError(absl::StrCat("cache ", dir, ": ", error.message()));
  std::unique_ptr<ArtifactCache> cache(new ArtifactCache(dir, bytes_max));
  cache->Load();
  return cache;
}

void ArtifactCache::Load() {
  struct Found {
    fs::file_time_type used;
    std::string key;
    uint64_t bytes;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator it(dir_, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (IsSha256Hex(name))
      found.push_back({it->last_write_time(ignored), name, it->file_size(ignored)});
    else if (it->is_regular_file(ignored) &&
             fs::file_time_type::clock::now() - it->last_write_time(ignored) >
                 std::chrono::hours(1))
      fs::remove(it->path(), ignored);  // half-written by a process that died
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.used < b.used; });
  MutexLock lock(&mutex_);
  for (const Found& file : found)
    Remember(file.key, file.bytes);
}

std::string ArtifactCache::PathOf(const std::string& key) const {
  return absl::StrCat(dir_, "/", key);
}

void ArtifactCache::Remember(const std::string& key, uint64_t bytes) {
  Forget(key);
  order_.push_back(key);
  entries_[key] = Entry{bytes, std::prev(order_.end())};
  bytes_ += bytes;
  while (bytes_ > bytes_max_ && order_.size() > 1) {
    const std::string oldest = order_.front();
    ::unlink(PathOf(oldest).c_str());
    Forget(oldest);
  }
}

void ArtifactCache::Forget(const std::string& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end())
    return;
  bytes_ -= it->second.bytes;
  order_.erase(it->second.place);
  entries_.erase(it);
}

std::shared_ptr<const Artifact> ArtifactCache::Get(const std::string& key) {
  if (!IsSha256Hex(key))
    return nullptr;
  const std::string path = PathOf(key);
  absl::StatusOr<std::string> file = ReadFile(path, kFileBytesMax);
  if (!file.ok()) {
    MutexLock lock(&mutex_);
    Forget(key);
    return nullptr;
  }
  const std::string sha256 = file->substr(0, kDigestBytes);
  if (file->size() > kDigestBytes) {
    std::string bytes = file->substr(kDigestBytes + 1);
    if (Sha256Hex(bytes) == sha256) {
      ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
      MutexLock lock(&mutex_);
      Remember(key, file->size());
      return std::make_shared<const Artifact>(sha256, std::move(bytes));
    }
  }
  LogWarning(absl::StrCat("artifact cache: removed damaged file ", path));
  ::unlink(path.c_str());
  MutexLock lock(&mutex_);
  Forget(key);
  return nullptr;
}

void ArtifactCache::Put(const std::string& key, const Artifact& artifact) {
  const std::string file = absl::StrCat(artifact.sha256(), "\n", artifact.bytes());
  const absl::Status written = WriteFileAtomic(PathOf(key), file, 0400);
  if (!written.ok()) {
    LogWarning(absl::StrCat("artifact cache: not kept: ", written.ToString()));
    return;
  }
  MutexLock lock(&mutex_);
  Remember(key, file.size());
}

uint64_t ArtifactCache::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace pike::build
