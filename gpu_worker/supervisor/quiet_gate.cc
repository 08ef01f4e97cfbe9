#include "gpu_worker/supervisor/quiet_gate.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace pike::gpu {
namespace {

constexpr size_t kWindowsMax = 256;

absl::Status FreezeAll(const std::vector<Freezable*>& members, MonoTime deadline) {
  for (Freezable* member : members)
    RETURN_IF_ERROR(member->StartFreezing());
  for (Freezable* member : members)
    RETURN_IF_ERROR(member->WaitFrozen(deadline));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<QuietGate::Party>> QuietGate::Enter(bool is_alone,
                                                                   const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(&mutex_);
    changed_.NotifyAll();
  });
  MutexLock lock(&mutex_);
  const auto has_room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_alone ? parties_.empty() : !is_alone_ && alone_waiting_ == 0;
  };
  if (is_alone)
    ++alone_waiting_;
  while (!has_room() && !stop.stop_requested())
    changed_.Wait(&mutex_);
  if (is_alone) {
    --alone_waiting_;
    changed_.NotifyAll();
  }
  if (!has_room() || stop.stop_requested())
    return absl::CancelledError("stopped while waiting for the device");
  is_alone_ = is_alone;
  const PartyId id = ++last_party_;
  State state;
  state.has_company = !parties_.empty() || !members_.empty();
  if (!parties_.empty()) {
    for (auto& [other, other_state] : parties_)
      other_state.has_company = true;
  }
  // Someone times: the newcomer waits with its first member.
  if (timer_)
    state.frozen_since = MonoNow();
  parties_.emplace(id, std::move(state));
  return std::make_unique<Party>(this, id);
}

void QuietGate::Leave(PartyId party) {
  MutexLock lock(&mutex_);
  PIKE_CHECK(timer_ != party);
  parties_.erase(party);
  if (parties_.empty())
    is_alone_ = false;
  changed_.NotifyAll();
}

void QuietGate::WaitWhileOthersTime(PartyId party) {
  while (timer_ && *timer_ != party)
    changed_.Wait(&mutex_);
}

void QuietGate::Put(Freezable* member, PartyId party) {
  MutexLock lock(&mutex_);
  WaitWhileOthersTime(party);
  members_[member] = party;
}

void QuietGate::Remove(Freezable* member, PartyId party) {
  MutexLock lock(&mutex_);
  WaitWhileOthersTime(party);
  members_.erase(member);
}

void QuietGate::AddTeardown(PartyId party) {
  MutexLock lock(&mutex_);
  WaitWhileOthersTime(party);
  ++teardowns_;
}

void QuietGate::RemoveTeardown() {
  MutexLock lock(&mutex_);
  --teardowns_;
  changed_.NotifyAll();
}

std::vector<Freezable*> QuietGate::OthersThan(PartyId party) {
  std::vector<Freezable*> others;
  for (const auto& [member, owner] : members_) {
    if (owner != party)
      others.push_back(member);
  }
  return others;
}

absl::StatusOr<QuietGate::Timing> QuietGate::BeginTiming(PartyId party, MonoTime deadline,
                                                         const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(&mutex_);
    changed_.NotifyAll();
  });
  std::vector<Freezable*> others;
  {
    MutexLock lock(&mutex_);
    while (teardowns_ > 0 && !stop.stop_requested())
      changed_.Wait(&mutex_);
    if (stop.stop_requested())
      return absl::CancelledError("stopped before the timing");
    PIKE_CHECK(!timer_.has_value());
    timer_ = party;
    others = OthersThan(party);
    frozen_ = others;
    for (auto& [id, state] : parties_) {
      if (id != party)
        state.frozen_since = MonoNow();
    }
  }
  // Nobody comes or goes while `timer_` is set, so the members stay what they are.
  Timing timing(this, party);
  RETURN_IF_ERROR(FreezeAll(others, deadline));
  MutexLock lock(&mutex_);
  still_since_ = MonoNow();
  return timing;
}

void QuietGate::EndTiming(PartyId party) {
  std::vector<Freezable*> others;
  std::optional<Window> still;
  {
    MutexLock lock(&mutex_);
    PIKE_CHECK(timer_ == party);
    others = frozen_;
    if (still_since_)
      still = Window{*still_since_, MonoNow()};
  }
  for (Freezable* member : others)
    member->Thaw();
  std::chrono::nanoseconds sum{};
  {
    MutexLock lock(&mutex_);
    const MonoTime now = MonoNow();
    for (auto& [id, state] : parties_) {
      if (!state.frozen_since)
        continue;
      const auto frozen = now - *std::exchange(state.frozen_since, std::nullopt);
      state.frozen += frozen;
      sum += frozen;
      if (still)
        state.windows.push_back(*still);
      if (state.windows.size() > kWindowsMax)
        state.windows.erase(state.windows.begin());
    }
    frozen_.clear();
    still_since_.reset();
    timer_.reset();
    changed_.NotifyAll();
  }
  if (on_frozen_ && sum.count() > 0)
    on_frozen_(std::chrono::duration<double>(sum).count());
}

std::chrono::nanoseconds QuietGate::Party::FrozenFor(MonoTime now) const {
  MutexLock lock(&gate_->mutex_);
  const State& state = gate_->parties_.at(id_);
  return state.frozen +
         (state.frozen_since ? now - *state.frozen_since : std::chrono::nanoseconds{});
}

std::vector<Window> QuietGate::Party::FrozenWindows() const {
  MutexLock lock(&gate_->mutex_);
  const State& state = gate_->parties_.at(id_);
  std::vector<Window> windows = state.windows;
  if (state.frozen_since && gate_->still_since_)
    windows.push_back({*gate_->still_since_, MonoNow()});
  return windows;
}

bool QuietGate::Party::has_company() const {
  MutexLock lock(&gate_->mutex_);
  return gate_->parties_.at(id_).has_company;
}

std::vector<Window> WithoutHoles(Window whole, const std::vector<Window>& holes) {
  std::vector<Window> parts;
  for (const Window& hole : holes) {
    if (hole.end <= whole.start || hole.start >= whole.end)
      continue;
    if (hole.start > whole.start)
      parts.push_back({whole.start, hole.start});
    whole.start = std::min(hole.end, whole.end);
  }
  if (whole.start < whole.end)
    parts.push_back(whole);
  return parts;
}

}  // namespace pike::gpu
