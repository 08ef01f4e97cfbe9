#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/types.h"

namespace pike::coordinator {

// Every bound and period of the core. Defaults suit one server; the simulator draws them at random
// within the ranges below.
struct CoreLimits {
  // Evaluations that wait for, or are in, the compile stage; more are refused. Range 1 to 1000000.
  uint32_t queue_compile_max = 10'000;
  // Evaluations past the compile stage; at the bound compile leases wait. Range 1 to 1000000.
  uint32_t queue_run_max = 10'000;
  // Live evaluations of one principal, so that none can fill the queue alone. Range 1 to 1000000.
  uint32_t evaluations_per_principal_max = 5'000;
  // Client keys kept of ended evaluations, oldest forgotten first. Range 1 to 1000000.
  uint32_t client_keys_max = 100'000;
  // Contests and classes whose best verdict is known, the one improved the longest ago forgotten
  // first. Range 1 to 1000000.
  uint32_t bests_max = 10'000;
  // Verdicts of GPU workers that a misjudged canary may still withdraw, oldest end forgotten first.
  // Range 1 to 1000000.
  uint32_t verdicts_kept_max = 10'000;
  // Workers known at once, lost ones included; more are refused. Range 1 to 100000.
  uint32_t workers_max = 4'096;
  // Slots of one worker; a Hello with more is refused. Range 1 to 1024.
  uint32_t slots_max = 256;
  // Late builds in progress for one GPU worker; more are answered with an error. Range 1 to 1024.
  uint32_t builds_per_worker_max = 16;
  // Leases of one stage of an evaluation, and of one late build. Range 1 to 10.
  uint32_t attempts_max = 3;
  // Wait before the second lease of a stage or late build; ten times as long before each further
  // one, up to retry_delay_max. So a fault that passes costs one attempt. Range 0 s to 60 s.
  Milliseconds retry_delay{1'000};
  // Range retry_delay to 600 s.
  Milliseconds retry_delay_max{30'000};
  // Longest reason kept of a failed attempt, in bytes; the rest is cut. Range 16 to 4096.
  uint32_t reason_bytes_max = 1'024;

  // Workers are told to send heartbeats this often. Range 10 ms to 60 s.
  Milliseconds heartbeat_interval{1'000};
  // A lease or session not heard of for this long is lost; at least twice the heartbeat interval.
  // Also the grace after a restart. Smaller finds crashes sooner, larger forgives stalls.
  Milliseconds lease_timeout{10'000};
  // How long a lost worker counts for admission and for the choice of a compile target; at least
  // lease_timeout.
  Milliseconds worker_memory{600'000};
  // Added to the deadline that the worker is told, before the core cancels a lease. Range 0 s to
  // 600 s.
  Milliseconds deadline_margin{10'000};
  // Waiting for a build slot or device lock inside a lease, added to the policy's own times. Range
  // 0 s to 3600 s.
  Milliseconds lease_slack{600'000};
};

// A program whose verdict is known.
struct CanarySpec {
  std::string name;
  std::string payload;  // as of EvaluationSubmitted
  PolicyTimes times;
  VerdictKind expected = VerdictKind::kValid;
  // Where the speedup of a valid one must lie; 0: it is not looked at.
  double speedup_min = 0;
  double speedup_max = 0;
  // Also in a worker's first round, which its first work waits for.
  bool is_in_first_round = true;
};

struct CoreOptions : CoreLimits {
  // A round of them, in order; none: workers are not tried. See CanaryFlow.
  std::vector<CanarySpec> canaries;
  // From one round of a worker to its next. Range 1 s to 30 days.
  Milliseconds canary_interval{std::chrono::hours(6)};
  // Classes that will have workers though none is connected yet; work for them queues.
  std::vector<std::string> gpu_classes;
};

// All that is wrong with `options`, one line each; empty if they are valid.
std::vector<std::string> Problems(const CoreOptions& options);

// The wait after the failure of the attempt of this number, from 1.
Milliseconds RetryDelay(const CoreLimits& limits, uint32_t attempt);

// The longest a run lease may take by `times` alone: load, late builds, first call, and candidate
// and reference side by side in verification, warm-up and timing, which is repeated where clocks
// disagree; all of it twice, since a would-be best is confirmed.
Milliseconds RunTimeout(const PolicyTimes& times);

}  // namespace pike::coordinator
