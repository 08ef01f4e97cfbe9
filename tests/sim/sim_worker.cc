#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include <absl/strings/str_cat.h>

#include "tests/sim/sim_network.h"
#include "tests/sim/wire.h"
#include "tests/sim/world.h"

namespace pike::coordinator::sim {

using service::LeaseKey;

SimWorker::SimWorker(World* world, const WorkerFacts& facts)
    : world_(*world), name_(facts.worker_id.value), facts_(facts) {}

void SimWorker::Start() {
  ++life_;
  facts_.worker_id = {absl::StrCat(name_, "-", life_)};
  world_.Trace(absl::StrCat("worker ", id().value, " starts"));
  service::SessionOptions options;
  options.hello = HelloOf(facts_);
  options.reconnect_min = world_.random().Span(10, 100);
  options.reconnect_max = options.reconnect_min * 10;
  options.welcome_timeout = std::chrono::milliseconds(1'000);
  options.result_repeat = std::chrono::milliseconds(500);
  options.seed = world_.random().Next();
  session_.emplace(options);
  lies_from_.reset();
  if (facts_.kind == WorkerKind::kGpu && world_.random().Chance(world_.faults().liars))
    lies_from_ =
        world_.loop().now() + world_.random().Span(0, world_.options().lies_after_max.count());
  Perform(session_->Start(world_.loop().now()));
}

void SimWorker::Crash() {
  world_.Trace(absl::StrCat("worker ", id().value, " crashes"));
  Exit(3'000);
}

void SimWorker::Exit(int64_t pause_ms_max) {
  ++life_;
  session_.reset();
  tasks_.clear();
  next_tick_.reset();
  world_.network().CloseByWorker(this, world_.random().Chance(world_.faults().half_open));
  world_.loop().After(world_.random().Span(50, pause_ms_max), [this, life = life_] {
    if (life == life_)
      Start();
  });
}

void SimWorker::Stall(std::chrono::milliseconds span) {
  world_.Trace(absl::StrCat("worker ", id().value, " stalls for ", span.count(), " ms"));
  stalled_until_ = world_.loop().now() + span;
}

void SimWorker::Drain() {
  world_.Trace(absl::StrCat("worker ", id().value, " drains"));
  Perform(session_->Drain("leaving", world_.loop().now()));
}

void SimWorker::OnConnected() {
  Inside(life_, [this] { Perform(session_->OnConnected(world_.loop().now())); });
}

void SimWorker::OnDisconnected() {
  Inside(life_, [this] {
    // Replies to builds cannot come any more.
    for (auto it = tasks_.begin(); it != tasks_.end();) {
      Task* task = &(it++)->second;
      if (task->build_request_id.has_value())
        Fail(task);
    }
    Perform(session_->OnDisconnected(world_.loop().now()));
  });
}

void SimWorker::OnMessage(const v1::CoordinatorMessage& message) {
  Inside(life_, [this, message] { Perform(session_->OnMessage(message, world_.loop().now())); });
}

void SimWorker::Inside(uint64_t life, std::function<void()> work) {
  if (life != life_ || !is_running())
    return;
  if (world_.loop().now() < stalled_until_) {
    world_.loop().At(stalled_until_, [this, life, work = std::move(work)] { Inside(life, work); });
    return;
  }
  work();
}

void SimWorker::Later(std::chrono::milliseconds delay, std::function<void()> work) {
  world_.loop().After(delay, [this, life = life_, work = std::move(work)] { Inside(life, work); });
}

void SimWorker::Perform(const Actions& actions) {
  const uint64_t life = life_;
  for (const service::SessionAction& action : actions) {
    if (life == life_)
      PerformOne(action);
  }
  if (life == life_)
    ScheduleTick();
}

void SimWorker::PerformOne(const service::SessionAction& action) {
  if (std::holds_alternative<service::OpenStream>(action)) {
    world_.network().Connect(this);
  } else if (std::holds_alternative<service::CloseStream>(action)) {
    world_.network().CloseByWorker(this, /*is_half_open=*/false);
  } else if (const auto* send = std::get_if<service::SendMessage>(&action)) {
    world_.network().ToCoordinator(this, send->message);
  } else if (const auto* start = std::get_if<service::StartLease>(&action)) {
    StartTask(start->lease);
  } else if (const auto* stop = std::get_if<service::StopLease>(&action)) {
    tasks_.erase(stop->key);
  } else if (const auto* reply = std::get_if<service::DeliverBuildReply>(&action)) {
    TakeBuildReply(reply->reply);
  } else {
    Exit(1'000);  // drained or refused: another process takes its place
  }
}

void SimWorker::ScheduleTick() {
  const auto due = session_->NextDeadline();
  if (!due.has_value() || (next_tick_.has_value() && *next_tick_ <= *due))
    return;
  next_tick_ = std::max(*due, world_.loop().now());
  world_.loop().At(*next_tick_, [this, life = life_, at = *next_tick_] {
    Inside(life, [this, at] {
      if (next_tick_ != at)
        return;
      next_tick_.reset();
      Perform(session_->Tick(world_.loop().now()));
    });
  });
}

void SimWorker::StartTask(const v1::Lease& lease) {
  const LeaseKey key{lease.lease_id(), lease.attempt()};
  tasks_[key].lease = lease;
  const auto running = static_cast<uint32_t>(tasks_.size());
  world_.Tell([&](Checker& checker) { checker.OnTaskStarted(id().value, running, facts_.slots); });
  if (world_.random().Chance(world_.faults().task_hangs))
    return;
  if (lease.has_compile())
    Continue(key, &SimWorker::FinishCompile);
  else if (lease.has_build())
    Continue(key, &SimWorker::FinishBuild);
  else
    Continue(key, &SimWorker::Prepare);
}

void SimWorker::Continue(const LeaseKey& key, void (SimWorker::*step)(Task*)) {
  Later(world_.random().Span(1, world_.options().work_max.count()), [this, key, step] {
    const auto task = tasks_.find(key);
    if (task != tasks_.end())
      (this->*step)(&task->second);
  });
}

void SimWorker::FinishCompile(Task* task) {
  if (world_.random().Chance(world_.faults().task_fails))
    return Fail(task);
  const std::string& candidate = task->lease.compile().candidate_sha256();
  v1::LeaseResult result;
  if (world_.random().Chance(100)) {
    result.mutable_verdict()->set_kind(world_.random().Chance(500) ? v1::VERDICT_KIND_UNPARSABLE
                                                                   : v1::VERDICT_KIND_LOAD_ERROR);
    result.mutable_verdict()->set_reason("verdict of " + candidate);
  } else {
    result.mutable_compiled()->set_note("builds of " + candidate);
  }
  Finish(task, std::move(result));
}

void SimWorker::FinishBuild(Task* task) {
  if (world_.random().Chance(world_.faults().task_fails))
    return Fail(task);
  v1::LeaseResult result;
  result.mutable_build()->set_name("built " + task->lease.build().request_sha256());
  Finish(task, std::move(result));
}

void SimWorker::Prepare(Task* task) {
  const LeaseKey key{task->lease.lease_id(), task->lease.attempt()};
  const bool is_canary = task->lease.evaluation_id().empty();
  if (is_canary || !world_.random().Chance(world_.options().late_builds))
    return Continue(key, &SimWorker::Verify);
  v1::BuildRequest request;
  request.set_request_id(++build_requests_);
  request.set_lease_id(task->lease.lease_id());
  request.set_request_sha256("sha of " + task->lease.run().candidate_sha256());
  request.set_arch(task->lease.arch());
  request.set_timeout_ms(500);
  task->build_request_id = build_requests_;
  Actions actions;
  if (!session_->OnBuildRequested(request, &actions))
    return Fail(task);
  Perform(actions);
}

void SimWorker::TakeBuildReply(const v1::BuildReply& reply) {
  for (auto& [key, task] : tasks_) {
    if (task.build_request_id != reply.request_id())
      continue;
    task.build_request_id.reset();
    if (!reply.infra_error().empty())
      return Fail(&task);
    if (reply.build().name() != "built sha of " + task.lease.run().candidate_sha256())
      throw SafetyViolation("attribution: a build of another candidate: " + reply.build().name());
    return Continue(key, &SimWorker::Verify);
  }
}

void SimWorker::Verify(Task* task) {
  const LeaseKey key{task->lease.lease_id(), task->lease.attempt()};
  Perform(session_->OnStageChanged(key, v1::STAGE_VERIFY, world_.loop().now()));
  Continue(key, &SimWorker::Measure);
}

void SimWorker::Measure(Task* task) {
  const LeaseKey key{task->lease.lease_id(), task->lease.attempt()};
  Perform(session_->OnStageChanged(key, v1::STAGE_MEASURE, world_.loop().now()));
  Continue(key, &SimWorker::FinishRun);
}

void SimWorker::FinishRun(Task* task) {
  if (world_.random().Chance(world_.faults().task_fails))
    return Fail(task);
  v1::LeaseResult result;
  const bool lies = lies_from_.has_value() && world_.loop().now() >= *lies_from_;
  v1::Verdict* verdict = result.mutable_verdict();
  verdict->set_kind(lies ? v1::VERDICT_KIND_VALID : KindFor(task->lease));
  verdict->mutable_measurement()->set_speedup(lies ? kLiedSpeedup : 1);
  verdict->set_reason("verdict of " + task->lease.run().candidate_sha256());
  Finish(task, std::move(result));
}

v1::VerdictKind SimWorker::KindFor(const v1::Lease& lease) {
  if (lease.evaluation_id().empty())
    return lease.run().candidate_sha256() == "valid" ? v1::VERDICT_KIND_VALID
                                                     : v1::VERDICT_KIND_INCORRECT;
  // Now and then a kind that only the coordinator may decide.
  const auto kind = world_.random().Between(v1::VERDICT_KIND_VALID, v1::VERDICT_KIND_SUSPECT);
  return world_.random().Chance(10) ? v1::VERDICT_KIND_CANCELLED
                                    : static_cast<v1::VerdictKind>(kind);
}

void SimWorker::Fail(Task* task) {
  v1::LeaseResult result;
  result.mutable_infra_failure()->set_reason("simulated");
  result.mutable_infra_failure()->set_is_retryable(!world_.random().Chance(100));
  Finish(task, std::move(result));
}

void SimWorker::Finish(Task* task, v1::LeaseResult result) {
  const LeaseKey key{task->lease.lease_id(), task->lease.attempt()};
  result.set_lease_id(key.lease_id);
  result.set_attempt(key.attempt);
  tasks_.erase(key);
  Perform(session_->OnLeaseFinished(std::move(result), world_.loop().now()));
}

}  // namespace pike::coordinator::sim
