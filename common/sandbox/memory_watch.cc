#include "common/sandbox/memory_watch.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/sandbox/pidfd.h"

namespace pike::sandbox {
namespace {

// A process can touch some 2 GB of new memory in a second: 50 MB between two looks.
constexpr std::chrono::milliseconds kWatchdogInterval(25);
// The kernel enforces the limit itself; this is about the rest of the tree.
constexpr std::chrono::milliseconds kCgroupInterval(100);

// Between two looks whether a tree stands still: where the kernel tells, and where it does not.
constexpr std::chrono::milliseconds kFreezeLook(100);
constexpr std::chrono::microseconds kFreezeStep(500);

// Whether `fd` has one of `events`, waiting so long at most.
bool PollFor(int fd, short events, MonoTime::duration timeout) {
  pollfd polled{.fd = fd, .events = events, .revents = 0};
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  return poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000))) > 0;
}

}  // namespace

WatchedTree::WatchedTree(std::unique_ptr<TreeLimit> limit, UniqueFd init)
    : init_(std::move(init)), limit_(std::move(limit)) {}

void WatchedTree::Observe() {
  const MemoryState now = limit_->Observe();
  if (now.peak_bytes)
    state_.peak_bytes = std::max(state_.peak_bytes.value_or(0), *now.peak_bytes);
  state_.is_limit_hit = state_.is_limit_hit || now.is_limit_hit;
  state_.is_host_full = !state_.is_limit_hit && (state_.is_host_full || now.is_host_full);
}

void WatchedTree::Tick() {
  MutexLock lock(&mutex_);
  if (limit_ == nullptr)
    return;
  Observe();
  if (state_.is_limit_hit)
    KillNow();
}

void WatchedTree::Kill() {
  MutexLock lock(&mutex_);
  KillNow();
}

void WatchedTree::KillNow() {
  is_killed_ = true;
  SignalPidfd(init_.get(), SIGKILL);
  // bubblewrap's monitor stands still, too.
  ThawNow();
}

absl::Status WatchedTree::Freeze() {
  MutexLock lock(&mutex_);
  if (limit_ == nullptr || is_killed_)
    return absl::OkStatus();
  is_freezing_ = true;
  return limit_->SetFrozen(true);
}

bool WatchedTree::IsFrozen() {
  MutexLock lock(&mutex_);
  return limit_ == nullptr || is_killed_ || limit_->IsFrozen();
}

void WatchedTree::Thaw() {
  MutexLock lock(&mutex_);
  ThawNow();
}

void WatchedTree::ThawNow() {
  if (limit_ == nullptr || !is_freezing_)
    return;
  is_freezing_ = false;
  const absl::Status status = limit_->SetFrozen(false);
  if (!status.ok())
    LogWarning(absl::StrCat("cannot thaw a sandbox: ", status.message()));
}

bool WatchedTree::WaitFrozen(MonoTime deadline) {
  UniqueFd events;
  {
    MutexLock lock(&mutex_);
    if (limit_ != nullptr)
      events = limit_->OpenEvents();
  }
  while (true) {
    char unused[128];
    // From here on a change wakes the poll.
    const bool has_events = pread(events.get(), unused, sizeof unused, 0) > 0;
    if (IsFrozen())
      return true;
    const auto left = deadline - MonoNow();
    if (left <= left.zero())
      return false;
    if (has_events)
      PollFor(events.get(), POLLPRI, std::min<MonoTime::duration>(left, kFreezeLook));
    else
      std::this_thread::sleep_for(kFreezeStep);
  }
}

bool WatchedTree::WaitGone(MonoTime deadline) const {
  do {
    if (PollFor(init_.get(), POLLIN, deadline - MonoNow()))
      return true;
  } while (MonoNow() < deadline);
  return false;
}

MemoryState WatchedTree::Finish() {
  MutexLock lock(&mutex_);
  if (limit_ != nullptr) {
    Observe();
    limit_.reset();
  }
  return state_;
}

MemoryWatch::MemoryWatch(bool has_cgroup)
    : interval_(has_cgroup ? kCgroupInterval : kWatchdogInterval), thread_([this] { Loop(); }) {}

MemoryWatch::~MemoryWatch() {
  MutexLock lock(&mutex_);
  is_stopping_ = true;
  changed_.NotifyAll();
}

void MemoryWatch::Add(const std::shared_ptr<WatchedTree>& tree) {
  MutexLock lock(&mutex_);
  trees_.push_back(tree);
  changed_.NotifyAll();
}

void MemoryWatch::Loop() {
  while (true) {
    std::vector<std::shared_ptr<WatchedTree>> alive;
    {
      MutexLock lock(&mutex_);
      std::erase_if(trees_, [](const auto& tree) { return tree.expired(); });
      while (trees_.empty() && !is_stopping_)
        changed_.Wait(&mutex_);
      const MonoTime next = MonoNow() + interval_;
      while (!is_stopping_ && changed_.WaitUntil(&mutex_, next)) {
      }
      if (is_stopping_)
        return;
      for (const std::weak_ptr<WatchedTree>& tree : trees_) {
        if (std::shared_ptr<WatchedTree> strong = tree.lock())
          alive.push_back(std::move(strong));
      }
    }
    for (const std::shared_ptr<WatchedTree>& tree : alive)
      tree->Tick();
  }
}

}  // namespace pike::sandbox
