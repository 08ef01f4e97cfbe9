#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/unique_fd.h"
#include "common/sandbox/spec.h"

namespace pike::sandbox {

struct MemoryState {
  std::optional<int64_t> peak_bytes = {};
  bool is_limit_hit = false;
  bool is_host_full = false;  // killed for memory, but below the limit: the host had none left
};

// Tells the two apart. The kernel counts every kill in `oom_kills`, whoever ran out of memory, and
// in `limit_hits` how often the sandbox met its own limit; unknown counters speak for the limit.
MemoryState JudgeKills(std::optional<int64_t> oom_kills, std::optional<int64_t> limit_hits);
// `limit_hits` for cgroup v1, whose own counters of them stay at zero on recent kernels.
std::optional<int64_t> LimitHitsByPeak(std::optional<int64_t> peak_bytes,
                                       std::optional<int64_t> bytes_max);

// The limits of one sandbox that span its processes: memory, their number, and standing still.
// Destroying it removes what it made; its processes must be gone by then. Not thread-safe.
class TreeLimit {
 public:
  virtual ~TreeLimit() = default;
  // Puts a process that has no children yet under the limit; its descendants follow.
  virtual absl::Status Add(pid_t init_pid) = 0;
  // Reads the counters; with the watchdog, sums up the processes now.
  virtual MemoryState Observe() = 0;
  // Asks that all processes stand still, or go on; idempotent. By a cgroup of v2 it is the kernel's
  // doing, whatever the processes do; else by SIGSTOP and SIGCONT of all below the first one.
  virtual absl::Status SetFrozen(bool is_frozen) = 0;
  // Whether all stand still now.
  virtual bool IsFrozen() = 0;
  // Once it was read it polls as POLLPRI when IsFrozen may have changed. Closed: nothing tells.
  virtual UniqueFd OpenEvents() = 0;
};

// Makes TreeLimits. Each of memory and pids is looked for in the hierarchy that has it (cgroup v2,
// else v1); without a writable one memory is watched by summing the resident anonymous and shared
// memory of the tree, and pids are left to RLIMIT_NPROC.
// Threads: NewLimit from any thread.
class TreeLimiter {
 public:
  // Never fails: without cgroups it watches. Removes the cgroups (and kills the processes) that a
  // dead process of ours left behind.
  static std::unique_ptr<TreeLimiter> Create(bool is_without_cgroups);
  virtual ~TreeLimiter() = default;

  virtual absl::StatusOr<std::unique_ptr<TreeLimit>> NewLimit(const ResourceLimits& limits) = 0;
  virtual bool has_memory_cgroup() const = 0;
  virtual bool has_pids_cgroup() const = 0;
  virtual bool has_freezer_cgroup() const = 0;
};

}  // namespace pike::sandbox
