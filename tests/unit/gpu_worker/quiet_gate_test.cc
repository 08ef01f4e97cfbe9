#include "gpu_worker/supervisor/quiet_gate.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

using std::chrono::seconds;

class FakeMember : public Freezable {
 public:
  absl::Status StartFreezing() override {
    ++asked;
    return absl::OkStatus();
  }
  absl::Status WaitFrozen(MonoTime /*deadline*/) override {
    is_frozen = can_freeze;
    return can_freeze ? absl::OkStatus() : absl::UnavailableError("it moves");
  }
  void Thaw() override { is_frozen = false; }

  std::atomic<bool> is_frozen = false;
  std::atomic<int> asked = 0;
  bool can_freeze = true;
};

std::unique_ptr<QuietGate::Party> Enter(QuietGate* gate, bool is_alone = false) {
  auto party = gate->Enter(is_alone, {});
  REQUIRE(party.ok());
  return *std::move(party);
}

MonoTime Soon() {
  return MonoNow() + seconds(60);
}

TEST_CASE("QuietGate: while one times all others stand still, its own go on") {
  double frozen_s = 0;
  QuietGate gate([&frozen_s](double s) { frozen_s += s; });
  const auto timer = Enter(&gate);
  const auto other = Enter(&gate);
  FakeMember own;
  FakeMember neighbour;
  FakeMember idle;
  gate.Put(&own, timer->id());
  gate.Put(&neighbour, other->id());
  gate.Put(&idle, QuietGate::kNobody);
  const MonoTime before = MonoNow();
  {
    const auto timing = timer->BeginTiming(Soon(), {});
    REQUIRE(timing.ok());
    CHECK_FALSE(own.is_frozen);
    CHECK(neighbour.is_frozen);
    CHECK(idle.is_frozen);
    CHECK(other->FrozenFor(MonoNow() + seconds(1)) >= seconds(1));
    CHECK(timer->FrozenFor(MonoNow()).count() == 0);
  }
  CHECK_FALSE(neighbour.is_frozen);
  CHECK_FALSE(idle.is_frozen);
  REQUIRE(other->FrozenWindows().size() == 1);
  CHECK(other->FrozenWindows()[0].start >= before);
  CHECK(other->FrozenWindows()[0].end <= MonoNow());
  CHECK(timer->FrozenWindows().empty());
  CHECK(frozen_s > 0);
  gate.Remove(&own, timer->id());
  gate.Remove(&neighbour, other->id());
  gate.Remove(&idle, QuietGate::kNobody);
}

TEST_CASE("QuietGate: one that does not stand still ends the timing, and all go on") {
  QuietGate gate;
  const auto timer = Enter(&gate);
  FakeMember calm;
  FakeMember restless;
  restless.can_freeze = false;
  gate.Put(&calm, QuietGate::kNobody);
  gate.Put(&restless, QuietGate::kNobody);
  CHECK(absl::IsUnavailable(timer->BeginTiming(Soon(), {}).status()));
  CHECK_FALSE(calm.is_frozen);
  gate.Remove(&restless, QuietGate::kNobody);
  CHECK(timer->BeginTiming(Soon(), {}).ok());
  gate.Remove(&calm, QuietGate::kNobody);
}

TEST_CASE("QuietGate: nobody comes, goes or is torn down while another times") {
  QuietGate gate;
  const auto timer = Enter(&gate);
  const auto other = Enter(&gate);
  FakeMember leaving;
  FakeMember coming;
  gate.Put(&leaving, other->id());
  std::atomic<bool> is_timing = true;
  std::atomic<int> too_early = 0;
  std::vector<std::jthread> threads;
  {
    auto timing = timer->BeginTiming(Soon(), {});
    REQUIRE(timing.ok());
    std::latch started(3);
    const auto check = [&](auto action) {
      threads.emplace_back([&, action] {
        started.count_down();
        action();
        too_early += is_timing ? 1 : 0;
      });
    };
    check([&] { gate.Put(&coming, other->id()); });
    check([&] { gate.Remove(&leaving, other->id()); });
    check([&] { const QuietGate::Teardown teardown(&gate, other->id()); });
    started.wait();
    // The timer's own may, and are not waited for.
    FakeMember own;
    gate.Put(&own, timer->id());
    { const QuietGate::Teardown teardown(&gate, timer->id()); }
    gate.Remove(&own, timer->id());
    is_timing = false;
  }
  threads.clear();
  CHECK(too_early == 0);
  CHECK(coming.asked == 0);
  gate.Remove(&coming, other->id());
}

TEST_CASE("QuietGate: timing waits until a teardown is over") {
  QuietGate gate;
  const auto timer = Enter(&gate);
  auto teardown = std::make_unique<QuietGate::Teardown>(&gate, QuietGate::kNobody);
  std::atomic<bool> is_over = false;
  std::jthread thread([&] {
    const auto timing = timer->BeginTiming(Soon(), {});
    CHECK(timing.ok());
    CHECK(is_over);
  });
  is_over = true;
  teardown.reset();
  thread.join();
  std::stop_source stop;
  stop.request_stop();
  CHECK(absl::IsCancelled(timer->BeginTiming(Soon(), stop.get_token()).status()));
}

TEST_CASE("QuietGate: one that wants to be alone waits for the others and keeps new ones out") {
  QuietGate gate;
  auto first = Enter(&gate);
  CHECK_FALSE(first->has_company());
  auto second = Enter(&gate);
  CHECK(first->has_company());
  CHECK(second->has_company());
  std::atomic<bool> are_gone = false;
  std::jthread loner([&] {
    const auto alone = Enter(&gate, /*is_alone=*/true);
    CHECK(are_gone);
    CHECK_FALSE(alone->has_company());
  });
  first.reset();
  are_gone = true;
  second.reset();
  loner.join();
  const auto alone = Enter(&gate, true);
  std::stop_source stop;
  stop.request_stop();
  CHECK(absl::IsCancelled(gate.Enter(false, stop.get_token()).status()));
}

TEST_CASE("WithoutHoles: what is left of a window") {
  const MonoTime zero{};
  const auto at = [zero](int s) { return zero + seconds(s); };
  const auto parts = WithoutHoles(
      {at(10), at(20)}, {{at(0), at(5)}, {at(8), at(11)}, {at(13), at(14)}, {at(19), at(30)}});
  REQUIRE(parts.size() == 2);
  CHECK((parts[0].start == at(11) && parts[0].end == at(13)));
  CHECK((parts[1].start == at(14) && parts[1].end == at(19)));
  CHECK(WithoutHoles({at(1), at(2)}, {{at(0), at(3)}}).empty());
}

}  // namespace
}  // namespace pike::gpu
