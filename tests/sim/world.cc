#include "tests/sim/world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include <absl/strings/str_cat.h>

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_worker.h"

namespace pike::coordinator::sim {

std::vector<std::unique_ptr<Checker>> AllCheckers(const SimOptions& options) {
  const uint32_t evaluations = options.principals * options.evaluations_per_principal;
  std::vector<std::unique_ptr<Checker>> checkers;
  checkers.push_back(NewVerdictChecker());
  checkers.push_back(NewAttributionChecker());
  checkers.push_back(NewLeaseChecker());
  checkers.push_back(NewAttemptsChecker(options.core));
  checkers.push_back(NewBoundsChecker(options.core));
  checkers.push_back(NewCanaryChecker(options.core));
  checkers.push_back(NewCancelChecker());
  checkers.push_back(NewDurabilityChecker(options.core.client_keys_max >= evaluations));
  checkers.push_back(NewFairnessChecker());
  checkers.push_back(NewServiceChecker());
  checkers.push_back(NewSlotsChecker());
  checkers.push_back(NewReplayChecker(options.core));
  return checkers;
}

World::World(const SimOptions& options, std::unique_ptr<Tamper> tamper)
    : options_(options),
      faults_(options.faults),
      random_(options.seed),
      tamper_(tamper == nullptr ? std::make_unique<Tamper>() : std::move(tamper)),
      checkers_(AllCheckers(options)),
      network_(std::make_unique<SimNetwork>(this)),
      coordinator_(std::make_unique<SimCoordinator>(this)) {
  Build();
}

World::~World() = default;

void World::Build() {
  const auto add = [this](WorkerKind kind, uint32_t number) {
    WorkerFacts facts;
    facts.kind = kind;
    facts.slots = random_.Count(1, options_.slots_max);
    facts.runtime_digest = absl::StrCat("runtime-", number % options_.runtimes);
    facts.toolchain_digest = absl::StrCat(Name(kind), "-", facts.runtime_digest);
    facts.worker_id = {absl::StrCat(Name(kind), number)};
    facts.can_build = kind == WorkerKind::kCompile;
    if (kind == WorkerKind::kGpu) {
      facts.gpu_class = absl::StrCat("class-", number % options_.gpu_classes);
      facts.arch = "arch of " + facts.gpu_class;
    }
    workers_.push_back(std::make_unique<SimWorker>(this, facts));
  };
  for (uint32_t number = 0; number < options_.compile_workers; ++number)
    add(WorkerKind::kCompile, number);
  for (uint32_t number = 0; number < options_.gpu_workers; ++number)
    add(WorkerKind::kGpu, number);
  for (uint32_t number = 0; number < options_.principals; ++number)
    clients_.push_back(std::make_unique<SimClient>(this, absl::StrCat("tenant", number)));
}

void World::Run() {
  coordinator_->Start();
  for (const auto& worker : workers_)
    worker->Start();
  for (const auto& client : clients_)
    client->Start();
  ScheduleFault(faults_.coordinator_crash_period, &World::CrashCoordinator);
  ScheduleFault(faults_.worker_crash_period, &World::CrashWorker);
  ScheduleFault(faults_.disconnect_period, &World::BreakConnection);
  ScheduleFault(faults_.stall_period, &World::StallWorker);
  ScheduleFault(faults_.drain_period, &World::DrainWorker);
  ScheduleFault(faults_.snapshot_period, &World::WriteSnapshot);
  if (!options_.core.canaries.empty())
    ReplaceCondemned();
  const MonoTime calm = loop_.now() + options_.faults_end;
  loop_.At(calm, [this] { StopFaults(); });
  // The last rounds of canaries find the last liars, whose verdicts are queued again.
  const Milliseconds quiet =
      options_.core.canaries.empty() ? Milliseconds(0) : 3 * options_.core.canary_interval;
  MonoTime busy_until = calm;
  while (loop_.now() <= busy_until + quiet) {
    loop_.RunOne();
    if (!IsAtRest())
      busy_until = std::max(busy_until, loop_.now());
    if (loop_.now() > calm + options_.liveness_limit && !IsAtRest())
      throw LivenessViolation("liveness: " + WhatIsLeft());
  }
  Tell([this](Checker& checker) { checker.AtEnd(coordinator_->store().rows()); });
}

void World::ScheduleFault(Milliseconds period, void (World::*fault)()) {
  if (period.count() == 0)
    return;
  loop_.After(random_.Span(1, 2 * period.count()), [this, period, fault] {
    if (is_calm_)
      return;
    (this->*fault)();
    ScheduleFault(period, fault);
  });
}

void World::CrashCoordinator() {
  coordinator_->CrashSoon();
}

void World::CrashWorker() {
  SimWorker& worker = AnyWorker();
  if (worker.is_running())
    worker.Crash();
}

void World::BreakConnection() {
  SimWorker& worker = AnyWorker();
  Trace(absl::StrCat("connection of ", worker.id().value, " breaks"));
  network_->Break(&worker, random_.Chance(faults_.half_open));
}

void World::StallWorker() {
  SimWorker& worker = AnyWorker();
  if (worker.is_running())
    worker.Stall(random_.Span(1, 2 * options_.core.lease_timeout.count()));
}

void World::DrainWorker() {
  SimWorker& worker = AnyWorker();
  if (!worker.is_running())
    return;
  if (random_.Chance(500))
    return worker.Drain();
  coordinator_->Post(DrainRequested{NewRequest(), worker.id(), "by request"});
}

// As an operator does: what runs the worker starts another one.
void World::ReplaceCondemned() {
  loop_.After(Milliseconds(3'000), [this] {
    if (coordinator_->is_up()) {
      for (const WorkerView& worker : coordinator_->core().Workers()) {
        if (!worker.canary_failure.empty())
          coordinator_->Post(DrainRequested{NewRequest(), worker.worker.worker_id, "by request"});
      }
    }
    ReplaceCondemned();
  });
}

void World::WriteSnapshot() {
  coordinator_->WriteSnapshot();
}

void World::StopFaults() {
  Trace("faults stop");
  is_calm_ = true;
  FaultMix calm;
  calm.latency_max = faults_.latency_max;
  calm.commit_max = faults_.commit_max;
  faults_ = calm;
}

bool World::IsAtRest() const {
  if (!coordinator_->is_up() || coordinator_->core().Load().active_evaluations > 0)
    return false;
  for (const auto& client : clients_) {
    if (!client->is_done())
      return false;
  }
  return true;
}

std::string World::WhatIsLeft() const {
  std::string left = "long after the faults stopped: ";
  for (const auto& client : clients_)
    left += client->WhatIsLeft();
  if (!coordinator_->is_up())
    return left + "the coordinator is down";
  for (const auto& evaluation : coordinator_->core().ActiveEvaluations())
    absl::StrAppend(&left, ToText(evaluation.evaluation_id), " is in ", Name(evaluation.stage),
                    "; ");
  return left;
}

SimWorker& World::AnyWorker() {
  return *workers_[static_cast<size_t>(
      random_.Between(0, static_cast<int64_t>(workers_.size()) - 1))];
}

SimClient* World::FindClient(RequestId request) {
  for (const auto& client : clients_) {
    if (client->Owns(request))
      return client.get();
  }
  return nullptr;
}

void World::Trace(const std::string& line) {
  const std::string timed = absl::StrCat(
      std::chrono::duration_cast<Milliseconds>(loop_.now().time_since_epoch()).count(), " ", line);
  if (is_printing_)
    std::printf("%s\n", timed.c_str());
  for (const char c : timed)
    trace_hash_ = (trace_hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;  // FNV-1a
}

void World::Tell(const std::function<void(Checker&)>& tell) {
  for (const auto& checker : checkers_)
    tell(*checker);
}

}  // namespace pike::coordinator::sim
