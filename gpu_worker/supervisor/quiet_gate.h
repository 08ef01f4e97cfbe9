#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace pike::gpu {

// A process, or a tree of them, that uses a device and can be made to stand still.
class Freezable {
 public:
  virtual ~Freezable() = default;
  virtual absl::Status StartFreezing() = 0;
  virtual absl::Status WaitFrozen(MonoTime deadline) = 0;
  virtual void Thaw() = 0;
};

// A stretch of time.
struct Window {
  MonoTime start;
  MonoTime end;
};

// Keeps everything that uses one device still while one evaluation times on it. An evaluation is a
// party; its processes are its members. While a party times, the members of all others are frozen,
// no member comes or goes, and no process is torn down: a context that is made or destroyed is work
// for the device, too. One worker owns a device, so this needs no other process's consent.
// Threads: any member from any thread, but a Party's methods from the one that owns it.
class QuietGate {
 public:
  using PartyId = uint64_t;
  static constexpr PartyId kNobody = 0;  // of members that idle between evaluations

  class Party;
  // The time for which others stand still; they go on with its destruction.
  class Timing {
   public:
    Timing(QuietGate* gate, PartyId party) : gate_(gate), party_(party) {}
    Timing(Timing&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), party_(other.party_) {}
    Timing& operator=(Timing&&) = delete;
    ~Timing() {
      if (gate_ != nullptr)
        gate_->EndTiming(party_);
    }

   private:
    QuietGate* gate_;
    PartyId party_;
  };
  // While one lives nobody else times. Made before a process that used the device is ended.
  class Teardown {
   public:
    Teardown(QuietGate* gate, PartyId party) : gate_(gate) { gate_->AddTeardown(party); }
    ~Teardown() { gate_->RemoveTeardown(); }
    Teardown(const Teardown&) = delete;
    Teardown& operator=(const Teardown&) = delete;

   private:
    QuietGate* const gate_;
  };

  // `on_frozen` is told for how many seconds a party stood still. May be empty.
  explicit QuietGate(std::function<void(double seconds)> on_frozen = {})
      : on_frozen_(std::move(on_frozen)) {}

  // Waits until there is room for another party: nobody is alone or waits for it, and, for one that
  // wants to be alone, nobody else is there. Cancelled if `stop` is requested first.
  absl::StatusOr<std::unique_ptr<Party>> Enter(bool is_alone, const std::stop_token& stop);

  // From now on `member` is frozen while parties other than `party` time; said again, it changes
  // hands. Waits while somebody else times.
  void Put(Freezable* member, PartyId party);
  // REQUIRES: before the destruction of a member. Waits while somebody else times.
  void Remove(Freezable* member, PartyId party);

 private:
  struct State {
    bool has_company = false;
    std::chrono::nanoseconds frozen{};
    std::optional<MonoTime> frozen_since;  // asked to stand still
    std::vector<Window> windows;           // stood still
  };

  absl::StatusOr<Timing> BeginTiming(PartyId party, MonoTime deadline, const std::stop_token& stop);
  void EndTiming(PartyId party);
  void AddTeardown(PartyId party);
  void RemoveTeardown();
  void Leave(PartyId party);
  std::vector<Freezable*> OthersThan(PartyId party) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitWhileOthersTime(PartyId party) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void(double)> on_frozen_;
  Mutex mutex_;
  CondVar changed_;
  PartyId last_party_ ABSL_GUARDED_BY(mutex_) = kNobody;
  std::map<PartyId, State> parties_ ABSL_GUARDED_BY(mutex_);
  std::map<Freezable*, PartyId> members_ ABSL_GUARDED_BY(mutex_);
  // Frozen by the timing in progress. Not changed while `timer_` is set.
  std::vector<Freezable*> frozen_ ABSL_GUARDED_BY(mutex_);
  std::optional<PartyId> timer_ ABSL_GUARDED_BY(mutex_);
  std::optional<MonoTime> still_since_ ABSL_GUARDED_BY(mutex_);
  int teardowns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_alone_ ABSL_GUARDED_BY(mutex_) = false;
  int alone_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One evaluation on the device, from Enter to destruction.
class QuietGate::Party {
 public:
  Party(QuietGate* gate, PartyId id) : gate_(gate), id_(id) {}
  ~Party() { gate_->Leave(id_); }
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  PartyId id() const { return id_; }
  // Freezes everybody else. REQUIRES: the device lock is held, so nobody else times. Unavailable:
  // someone does not stand still by `deadline`; Cancelled: `stop`.
  absl::StatusOr<Timing> BeginTiming(MonoTime deadline, const std::stop_token& stop) {
    return gate_->BeginTiming(id_, deadline, stop);
  }
  // For how long others' timing has stopped this party so far: not charged to any deadline.
  std::chrono::nanoseconds FrozenFor(MonoTime now) const;
  // When it stood still, in order, until now. The latest few hundred.
  std::vector<Window> FrozenWindows() const;
  // Whether others were, or idled, on the device at any time.
  bool has_company() const;

 private:
  QuietGate* const gate_;
  const PartyId id_;
};

// The parts of `whole` outside `holes` (in order, not overlapping). Pure.
std::vector<Window> WithoutHoles(Window whole, const std::vector<Window>& holes);

}  // namespace pike::gpu
