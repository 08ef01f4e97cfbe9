#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace pike::sandbox {

// A folder of a cgroup hierarchy below which ours may be made.
struct CgroupParent {
  std::string folder;
  bool is_v2 = false;
};

// Where a cgroup with `controller` ("memory", "pids") can be tried, best first: for v2 our own
// cgroup and the ones above it, for v1 our own, else the root. From the texts of /proc/self/mounts
// and /proc/self/cgroup. Pure.
std::vector<CgroupParent> CgroupParents(absl::string_view controller, absl::string_view mounts,
                                        absl::string_view own_cgroups);

// One cgroup folder of ours that holds a cgroup per sandbox. While we live it is locked (flock), so
// that a successor can tell what a dead predecessor left.
// Threads: any member from any thread.
class CgroupFolder {
 public:
  // Makes the folder below the first of `parents` where all `controllers` work. NotFound if none.
  // Kills and removes what dead predecessors left there.
  static absl::StatusOr<std::unique_ptr<CgroupFolder>> Create(
      const std::vector<CgroupParent>& parents, const std::vector<std::string>& controllers);
  ~CgroupFolder();
  CgroupFolder(const CgroupFolder&) = delete;
  CgroupFolder& operator=(const CgroupFolder&) = delete;

  // A new, empty cgroup: its folder.
  absl::StatusOr<std::string> Make();
  // Removes a cgroup whose processes are gone; what is still busy is tried again later.
  void Remove(const std::string& folder);

  bool is_v2() const { return is_v2_; }
  bool Has(absl::string_view controller) const;

 private:
  CgroupFolder(std::string folder, bool is_v2, std::vector<std::string> controllers, UniqueFd lock)
      : folder_(std::move(folder)),
        is_v2_(is_v2),
        controllers_(std::move(controllers)),
        lock_(std::move(lock)) {}

  const std::string folder_;
  const bool is_v2_;
  const std::vector<std::string> controllers_;
  const UniqueFd lock_;
  Mutex mutex_;
  int64_t made_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> busy_ ABSL_GUARDED_BY(mutex_);
};

// Writes and reads the small files of a cgroup.
absl::Status WriteCgroupFile(const std::string& path, absl::string_view text);
std::optional<int64_t> ReadCgroupNumber(const std::string& path);
// The number after `key` in a file of "key number" lines.
std::optional<int64_t> ReadCgroupField(const std::string& path, absl::string_view key);

}  // namespace pike::sandbox
