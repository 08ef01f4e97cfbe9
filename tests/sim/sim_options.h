#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/limits.h"

namespace pike::coordinator::sim {

// Faults of one run. Rates are permille per message or decision; periods are the mean time between
// two faults of a kind, zero for none.
struct FaultMix {
  uint32_t message_lost = 0;
  uint32_t message_repeated = 0;
  uint32_t message_overtakes = 0;
  uint32_t request_lost = 0;  // of clients, and their answers
  uint32_t half_open = 0;     // the coordinator is not told that a connection broke
  uint32_t task_hangs = 0;
  uint32_t task_fails = 0;
  uint32_t liars = 0;  // of GPU workers, which call everything valid from some time on
  std::chrono::milliseconds latency_max{5};
  std::chrono::milliseconds commit_max{2};
  std::chrono::milliseconds coordinator_crash_period{0};
  std::chrono::milliseconds worker_crash_period{0};
  std::chrono::milliseconds disconnect_period{0};
  std::chrono::milliseconds stall_period{0};
  std::chrono::milliseconds drain_period{0};
  std::chrono::milliseconds snapshot_period{0};
};

// One run, drawn from its seed: cluster, workload, limits (tiny ones often) and faults (some off,
// some extreme).
struct SimOptions {
  uint64_t seed = 0;
  CoreOptions core;
  FaultMix faults;
  uint32_t compile_workers = 1;
  uint32_t gpu_workers = 1;
  uint32_t slots_max = 1;
  uint32_t gpu_classes = 1;  // classes of GPU workers
  uint32_t runtimes = 1;     // toolchains among the workers
  uint32_t principals = 1;
  uint32_t evaluations_per_principal = 10;
  uint32_t keyed = 500;      // permille of requests with a client key
  uint32_t key_reused = 0;   // permille of keyed requests that reuse the key of another
  uint32_t cancelled = 0;    // permille
  uint32_t late_builds = 0;  // permille of runs
  std::chrono::milliseconds arrival_max{1'000};      // submissions come within
  std::chrono::milliseconds work_max{300};           // longest task that does not hang
  std::chrono::milliseconds lies_after_max{10'000};  // a liar begins within
  std::chrono::milliseconds faults_end{20'000};
  std::chrono::milliseconds liveness_limit{1'200'000};  // after faults_end everything must end
};

// What a lying worker measures; nobody else does.
constexpr double kLiedSpeedup = 8;

// A round of two, whose payloads are the names of the verdicts.
std::vector<CanarySpec> SimCanaries();

SimOptions DrawOptions(uint64_t seed);

// One line for people.
std::string Describe(const SimOptions& options);

}  // namespace pike::coordinator::sim
