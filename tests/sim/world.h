#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/checker.h"
#include "tests/sim/event_loop.h"
#include "tests/sim/random.h"
#include "tests/sim/sim_options.h"
#include "tests/sim/tamper.h"

namespace pike::coordinator::sim {

class SimClient;
class SimCoordinator;
class SimNetwork;
class SimWorker;

// One simulated cluster: the real core and the real worker sessions, everything else simulated. The
// seed decides everything. Not thread-safe, and has no threads.
class World {
 public:
  explicit World(const SimOptions& options, std::unique_ptr<Tamper> tamper = nullptr);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Faults until options.faults_end, then rest. Throws SafetyViolation or LivenessViolation.
  void Run();

  // Of everything the coordinator took and asked for, and every fault, with times.
  uint64_t trace_hash() const { return trace_hash_; }
  // Prints the trace as it grows.
  void PrintTrace() { is_printing_ = true; }

  // For the parts.
  const SimOptions& options() const { return options_; }
  // Turned off, but for latency, once faults have stopped.
  const FaultMix& faults() const { return faults_; }
  EventLoop& loop() { return loop_; }
  Random& random() { return random_; }
  SimNetwork& network() { return *network_; }
  SimCoordinator& coordinator() { return *coordinator_; }
  Tamper& tamper() { return *tamper_; }
  SimClient* FindClient(RequestId request);
  RequestId NewRequest() { return {++requests_made_}; }
  MonoTime::duration Latency() { return random_.Span(0, faults_.latency_max.count()); }

  void Trace(const std::string& line);
  void Tell(const std::function<void(Checker&)>& tell);

 private:
  void Build();
  void ScheduleFault(std::chrono::milliseconds period, void (World::*fault)());
  void CrashCoordinator();
  void CrashWorker();
  void BreakConnection();
  void StallWorker();
  void DrainWorker();
  void WriteSnapshot();
  void ReplaceCondemned();
  void StopFaults();
  bool IsAtRest() const;
  SimWorker& AnyWorker();
  std::string WhatIsLeft() const;

  const SimOptions options_;
  FaultMix faults_;
  EventLoop loop_;
  Random random_;
  std::unique_ptr<Tamper> tamper_;
  std::vector<std::unique_ptr<Checker>> checkers_;
  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  uint64_t requests_made_ = 0;
  uint64_t trace_hash_ = 0xcbf29ce484222325ULL;
  bool is_printing_ = false;
  bool is_calm_ = false;
};

}  // namespace pike::coordinator::sim
