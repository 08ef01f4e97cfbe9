#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/sandbox/memory_limit.h"

namespace pike::sandbox {

// One sandbox's tree under its limits. Threads: any member from any thread.
class WatchedTree {
 public:
  // `init` is a pidfd of the tree's init, by which the whole tree can be killed.
  WatchedTree(std::unique_ptr<TreeLimit> limit, UniqueFd init);

  // Looks at the memory, and kills the tree if it is above its limit.
  void Tick();
  // A frozen tree goes on, to its end.
  void Kill();
  // Asks that all of it stands still. Not after Kill.
  absl::Status Freeze();
  // Whether all of it stands still, waiting for that until `deadline`.
  bool WaitFrozen(MonoTime deadline);
  void Thaw();
  // Waits until init, and so everything in its pid namespace, is gone. False: it was not by
  // `deadline`, as with a process that hangs in a driver.
  bool WaitGone(MonoTime deadline) const;
  // Takes the last look and gives the limit back. REQUIRES: the tree is gone, or is given up.
  MemoryState Finish();

 private:
  bool IsFrozen();
  void Observe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KillNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ThawNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd init_;
  Mutex mutex_;
  std::unique_ptr<TreeLimit> limit_ ABSL_GUARDED_BY(mutex_);
  MemoryState state_ ABSL_GUARDED_BY(mutex_);
  bool is_killed_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_freezing_ ABSL_GUARDED_BY(mutex_) = false;
};

// Ticks all trees: a cgroup's kernel kills one process only (v1), and where there is no cgroup
// nobody does.
class MemoryWatch {
 public:
  explicit MemoryWatch(bool has_cgroup);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Ticks until nobody else owns it.
  void Add(const std::shared_ptr<WatchedTree>& tree);

 private:
  void Loop();

  const std::chrono::milliseconds interval_;
  Mutex mutex_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<WatchedTree>> trees_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: joined before the rest goes
};

}  // namespace pike::sandbox
