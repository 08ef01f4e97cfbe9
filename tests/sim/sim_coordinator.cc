#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>
#include <variant>

#include <absl/strings/str_cat.h>

#include "tests/sim/describe.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/wire.h"
#include "tests/sim/world.h"

namespace pike::coordinator::sim {

void SimCoordinator::Start() {
  ++life_;
  if (life_ > 1 && world_.random().Chance(100))
    wall_shift_ms_ += world_.random().Between(-60'000, 60'000);
  CoreOptions limits = world_.options().core;
  world_.tamper().OnLimits(&limits);
  core_ = std::make_unique<Core>(limits);
  for (const Record& record : store_.log())
    core_->Apply(record);
  world_.Trace(absl::StrCat("coordinator starts, life ", life_));
  world_.Tell([this](Checker& checker) { checker.OnRestart(*core_, store_.rows()); });
  Batch batch;
  Handle(CoordinatorStarted{WallNow()}, &batch);
  Commit(batch);
  for (const Command& command : batch)
    CarryOut(command);
  ScheduleDeadline();
}

void SimCoordinator::CrashSoon() {
  if (!is_up() || crash_point_.has_value())
    return;
  crash_point_ = static_cast<CrashPoint>(world_.random().Between(0, 3));
  world_.loop().After(world_.random().Span(0, 500), [this, life = life_] {
    if (life == life_ && is_up() && crash_point_.has_value() && !is_committing_)
      Crash();
  });
}

void SimCoordinator::Crash() {
  world_.Trace("coordinator crashes");
  crash_point_.reset();
  core_.reset();
  mailbox_.clear();
  ++life_;
  is_step_scheduled_ = false;
  is_committing_ = false;
  next_wake_.reset();
  world_.tamper().OnCrash(&store_);
  world_.network().LoseCoordinator();
  world_.loop().After(world_.random().Span(0, 2'000), [this] { Start(); });
}

bool SimCoordinator::CrashAt(CrashPoint point) {
  if (crash_point_ != point)
    return false;
  Crash();
  return true;
}

void SimCoordinator::Post(Event event) {
  if (!is_up())
    return;
  mailbox_.push_back(std::move(event));
  ScheduleStep();
}

void SimCoordinator::WriteSnapshot() {
  if (is_up() && !is_committing_) {
    world_.Trace("snapshot");
    store_.ReplaceLog(core_->Snapshot());
  }
}

void SimCoordinator::ScheduleStep() {
  if (is_step_scheduled_ || is_committing_)
    return;
  is_step_scheduled_ = true;
  world_.loop().After(world_.random().Span(0, 1), [this, life = life_] {
    if (life == life_)
      Step();
  });
}

void SimCoordinator::Step() {
  is_step_scheduled_ = false;
  if (CrashAt(CrashPoint::kBeforeHandle))
    return;
  Batch batch;
  for (int taken = 0; taken < 8 && !mailbox_.empty(); ++taken) {
    Event event = std::move(mailbox_.front());
    mailbox_.pop_front();
    Handle(std::move(event), &batch);
  }
  const auto due = core_->NextDeadline();
  if (due.has_value() && *due <= world_.loop().now())
    Handle(TimePassed{WallNow()}, &batch);
  world_.Tell([this](Checker& checker) { checker.OnStep(*core_); });
  if (CrashAt(CrashPoint::kBeforeCommit))
    return;
  Commit(batch);
  // Durable, but the store has not said so yet.
  is_committing_ = true;
  world_.loop().After(world_.random().Span(0, world_.faults().commit_max.count()),
                      [this, life = life_, batch = std::move(batch)] {
                        if (life != life_ || CrashAt(CrashPoint::kAfterCommit))
                          return;
                        is_committing_ = false;
                        for (const Command& command : batch) {
                          if (world_.random().Chance(200) && CrashAt(CrashPoint::kAmidEffects))
                            return;
                          CarryOut(command);
                        }
                        if (CrashAt(CrashPoint::kAmidEffects))
                          return;
                        if (!mailbox_.empty())
                          ScheduleStep();
                        ScheduleDeadline();
                      });
}

void SimCoordinator::Handle(Event event, Batch* batch) {
  if (!world_.tamper().OnEvent(&event))
    return;
  world_.Trace(Describe(event));
  Batch commands = core_->Handle(event, world_.loop().now());
  world_.tamper().OnCommands(&commands);
  for (Command& command : commands) {
    world_.Trace(absl::StrCat("  ", Describe(command)));
    batch->push_back(std::move(command));
  }
}

void SimCoordinator::Commit(const Batch& batch) {
  store_.Commit(batch);
  for (const Command& command : batch) {
    if (const auto* append = std::get_if<AppendRecord>(&command))
      world_.Tell([&](Checker& checker) { checker.OnRecord(append->record); });
    if (const auto* end = std::get_if<EndEvaluation>(&command))
      world_.Tell([&](Checker& checker) { checker.OnRow(*end); });
  }
}

void SimCoordinator::CarryOut(const Command& command) {
  world_.Tell([&](Checker& checker) { checker.OnEffect(command); });
  std::visit(
      [this](const auto& c) {
        using C = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<C, AnswerSubmit> || std::is_same_v<C, AnswerCancel>) {
          if (SimClient* client = world_.FindClient(c.request))
            client->Receive(c);
        } else if constexpr (std::is_same_v<C, CloseSession>) {
          world_.network().CloseByCoordinator(c.session);
        } else if constexpr (std::is_same_v<C, SendRefused>) {
          world_.network().ToWorker(c.session, MessageOf(c));
          world_.network().CloseByCoordinator(c.session);
        } else if constexpr (requires { MessageOf(c); }) {
          world_.network().ToWorker(c.session, MessageOf(c));
        }
      },
      command);
}

void SimCoordinator::ScheduleDeadline() {
  const auto due = core_->NextDeadline();
  if (!due.has_value() || (next_wake_.has_value() && *next_wake_ <= *due))
    return;
  next_wake_ = std::max(*due, world_.loop().now());
  world_.loop().At(*next_wake_, [this, life = life_, at = *next_wake_] {
    if (life != life_ || next_wake_ != at)
      return;
    next_wake_.reset();
    const auto next = core_->NextDeadline();
    if (next.has_value() && *next <= at)
      ScheduleStep();
    else
      ScheduleDeadline();
  });
}

int64_t SimCoordinator::WallNow() const {
  return 1'700'000'000'000 + wall_shift_ms_ +
         std::chrono::duration_cast<Milliseconds>(world_.loop().now().time_since_epoch()).count();
}

}  // namespace pike::coordinator::sim
