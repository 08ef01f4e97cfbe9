#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/core/core.h"
#include "coordinator/core/event.h"
#include "tests/sim/sim_store.h"

namespace pike::coordinator::sim {

class World;

// The second shell around the real core: takes batches of events, commits their records, then
// carries out the rest. It can crash between any two of these, and comes back from its store.
class SimCoordinator {
 public:
  explicit SimCoordinator(World* world) : world_(*world) {}

  void Start();
  // At a random point of the next batch: before it is handled, before or after it is durable, or in
  // the middle of its effects; now, if nothing comes.
  void CrashSoon();
  void Post(Event event);

  bool is_up() const { return core_ != nullptr; }
  const Core& core() const { return *core_; }
  const SimStore& store() const { return store_; }
  void WriteSnapshot();

 private:
  enum class CrashPoint { kBeforeHandle, kBeforeCommit, kAfterCommit, kAmidEffects };
  using Batch = std::vector<Command>;

  void Crash();
  // Whether this is the point of an awaited crash; if so it has happened.
  bool CrashAt(CrashPoint point);
  void ScheduleStep();
  void Step();
  void Handle(Event event, Batch* batch);
  void Commit(const Batch& batch);
  void CarryOut(const Command& command);
  void ScheduleDeadline();
  int64_t WallNow() const;

  World& world_;
  SimStore store_;
  std::unique_ptr<Core> core_;
  std::deque<Event> mailbox_;
  uint64_t life_ = 0;  // callbacks of an earlier one do nothing
  bool is_step_scheduled_ = false;
  bool is_committing_ = false;
  std::optional<CrashPoint> crash_point_;
  std::optional<MonoTime> next_wake_;
  int64_t wall_shift_ms_ = 0;
};

}  // namespace pike::coordinator::sim
