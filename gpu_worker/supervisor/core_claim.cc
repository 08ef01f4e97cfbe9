#include "gpu_worker/supervisor/core_claim.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/status_macros.h"
#include "common/service/runtime_dir.h"

namespace pike::gpu {
namespace {

absl::StatusOr<UniqueFd> LockCore(const std::string& folder, int core, bool is_reserved) {
  const std::string path = absl::StrCat(folder, "/core-", core);
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open())
    return ErrnoStatus(errno, path);
  if (::flock(file.get(), (is_reserved ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0)
    return absl::FailedPreconditionError(absl::StrCat(
        "another GPU worker ", is_reserved ? "runs on" : "reserves", " core ", core,
        ": let one worker serve all GPUs (--devices 0,1), or start each on cores of its own, as by "
        "taskset -c 0-7"));
  return file;
}

}  // namespace

absl::StatusOr<CoreClaim> CoreClaim::Take(const std::string& runtime_dir,
                                          const device::CorePlan& plan) {
  const std::string folder = runtime_dir + "/locks";
  RETURN_IF_ERROR(service::MakeFolders(folder, 0700));
  CoreClaim claim;
  for (const std::vector<int>& cores : plan.reserved) {
    for (const int core : cores) {
      ASSIGN_OR_RETURN(UniqueFd file, LockCore(folder, core, /*is_reserved=*/true));
      claim.files_.push_back(std::move(file));
    }
  }
  for (const int core : plan.others) {
    ASSIGN_OR_RETURN(UniqueFd file, LockCore(folder, core, /*is_reserved=*/false));
    claim.files_.push_back(std::move(file));
  }
  return claim;
}

}  // namespace pike::gpu
