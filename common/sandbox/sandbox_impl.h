#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "common/base/mutex.h"
#include "common/sandbox/launch.h"
#include "common/sandbox/sandbox.h"

namespace pike::sandbox {

// The uid slots of a host. Threads: any.
class UidSlots {
 public:
  // The wanted slot, or the lowest free one. AlreadyExists if it is taken.
  absl::StatusOr<int> Take(std::optional<int> wanted);
  void Return(int slot);

 private:
  Mutex mutex_;
  std::set<int> taken_ ABSL_GUARDED_BY(mutex_);
};

// A slot until it goes out of scope.
class SlotLease {
 public:
  SlotLease(UidSlots* slots, int slot) : slots_(slots), slot_(slot) {}
  SlotLease(SlotLease&& other) noexcept
      : slots_(std::exchange(other.slots_, nullptr)), slot_(other.slot_) {}
  SlotLease& operator=(SlotLease&&) = delete;
  ~SlotLease() {
    if (slots_ != nullptr)
      slots_->Return(slot_);
  }
  int slot() const { return slot_; }
  // It stays taken for good.
  void Lose() { slots_ = nullptr; }

 private:
  UidSlots* slots_;
  int slot_;
};

class Sandbox::Impl {
 public:
  Impl(std::string sandbox_name, uid_t uid, SlotLease lease, Launched launch,
       std::chrono::milliseconds gone_timeout = kGoneTimeout)
      : name(std::move(sandbox_name)),
        outside_uid(uid),
        gone_timeout_(gone_timeout),
        lease_(std::move(lease)),
        launched(std::move(launch)) {}

  std::optional<Exit> Wait(MonoTime deadline);
  Exit Kill(bool is_timed_out);

  const std::string name;
  const uid_t outside_uid;

 private:
  std::optional<Exit> Ended();
  Exit Finish(const std::optional<ProcessEnd>& end);

  const std::chrono::milliseconds gone_timeout_;
  SlotLease lease_;  // returned last

 public:
  const Launched launched;

 private:
  Mutex mutex_;
  bool is_kill_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_timed_out_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Exit> exit_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pike::sandbox
