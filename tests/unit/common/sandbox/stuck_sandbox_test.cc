// A sandbox whose processes do not go when they are killed, as those that hang in a driver.

#include <signal.h>
#include <sys/eventfd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "common/sandbox/sandbox_impl.h"
#include "tests/testing/catch.h"

namespace pike::sandbox {
namespace {

class FakeMonitor : public Child {
 public:
  explicit FakeMonitor(bool can_end) : can_end_(can_end) {}
  pid_t pid() const override { return 1; }
  std::optional<ProcessEnd> Wait(MonoTime /*deadline*/) override {
    if (!can_end_ || !is_killed_)
      return std::nullopt;
    return ProcessEnd{.wait_status = SIGKILL, .cpu_time = {}, .time = MonoNow()};
  }
  void Signal(int /*signal*/) override { is_killed_ = true; }

 private:
  const bool can_end_;
  bool is_killed_ = false;
};

class FakeStream : public OutputStream {
 public:
  CapturedOutput Snapshot() const override { return {}; }
  void Finish() override {}
};

class FakeLimit : public TreeLimit {
 public:
  absl::Status Add(pid_t /*init_pid*/) override { return absl::OkStatus(); }
  MemoryState Observe() override { return {}; }
  absl::Status SetFrozen(bool /*is_frozen*/) override { return absl::OkStatus(); }
  bool IsFrozen() override { return false; }
  UniqueFd OpenEvents() override { return UniqueFd(); }
};

// Its init is a descriptor that never becomes readable, or is readable at once.
std::unique_ptr<Sandbox::Impl> Fake(UidSlots* slots, bool can_monitor_end, bool is_init_gone) {
  const absl::StatusOr<int> slot = slots->Take(7);
  REQUIRE(slot.ok());
  UniqueFd init(eventfd(is_init_gone ? 1 : 0, EFD_CLOEXEC));
  Launched launched;
  launched.monitor = std::make_shared<FakeMonitor>(can_monitor_end);
  launched.init_pid = 1;
  launched.tree = std::make_shared<WatchedTree>(std::make_unique<FakeLimit>(), std::move(init));
  launched.out = std::make_shared<FakeStream>();
  launched.err = std::make_shared<FakeStream>();
  launched.start_time = MonoNow();
  return std::make_unique<Sandbox::Impl>("fake", 1000, SlotLease(slots, *slot), std::move(launched),
                                         std::chrono::milliseconds(20));
}

TEST_CASE("Sandbox: processes that cannot be ended are given up, and their uid is lost") {
  for (const bool can_monitor_end : {true, false}) {
    UidSlots slots;
    {
      const auto impl = Fake(&slots, can_monitor_end, /*is_init_gone=*/false);
      const Exit exit = impl->Kill(/*is_timed_out=*/true);
      CHECK(exit.is_stuck);
      CHECK(exit.is_killed);
      CHECK(exit.is_timed_out);
      CHECK_FALSE(exit.is_success());
      // Said again at once.
      CHECK(impl->Wait(MonoTime::max()).value_or(Exit{}).is_stuck);
      CHECK(impl->Kill(/*is_timed_out=*/false).is_stuck);
    }
    CHECK_FALSE(slots.Take(7).ok());
  }
}

TEST_CASE("Sandbox: one that goes gives its uid back") {
  UidSlots slots;
  {
    const auto impl = Fake(&slots, /*can_monitor_end=*/true, /*is_init_gone=*/true);
    CHECK_FALSE(impl->Kill(/*is_timed_out=*/false).is_stuck);
  }
  CHECK(slots.Take(7).ok());
}

}  // namespace
}  // namespace pike::sandbox
