#include "tests/sim/sim_options.h"

#include <string>

#include <absl/strings/str_cat.h>

#include "tests/sim/random.h"

namespace pike::coordinator::sim {
namespace {

uint32_t Rate(Random* random, uint32_t mild, uint32_t extreme) {
  switch (random->Between(0, 3)) {
    case 0:
    case 1:
      return 0;
    case 2:
      return random->Count(1, mild);
    default:
      return random->Count(mild, extreme);
  }
}

Milliseconds Period(Random* random, int64_t low, int64_t high) {
  return random->Chance(500) ? Milliseconds(0) : random->Span(low, high);
}

CoreOptions DrawLimits(Random* random) {
  CoreOptions core;
  const bool is_tiny = random->Chance(500);
  core.queue_compile_max = random->Count(1, is_tiny ? 4 : 100);
  core.queue_run_max = random->Count(1, is_tiny ? 4 : 100);
  core.evaluations_per_principal_max = random->Count(1, is_tiny ? 4 : 100);
  core.client_keys_max = random->Chance(300) ? random->Count(1, 5) : 10'000;
  core.workers_max = random->Count(12, 40);
  core.builds_per_worker_max = random->Count(1, 4);
  core.attempts_max = random->Count(1, 4);
  core.heartbeat_interval = random->Span(100, 1'000);
  core.lease_timeout = core.heartbeat_interval * random->Between(2, 6);
  core.worker_memory = core.lease_timeout * random->Between(1, 10);
  core.deadline_margin = random->Span(0, 500);
  core.lease_slack = random->Span(0, 1'000);
  if (random->Chance(500))
    core.gpu_classes = {"class-0"};
  return core;
}

FaultMix DrawFaults(Random* random) {
  FaultMix faults;
  faults.message_lost = Rate(random, 20, 200);
  faults.message_repeated = Rate(random, 50, 500);
  faults.message_overtakes = Rate(random, 20, 300);
  faults.request_lost = Rate(random, 50, 300);
  faults.half_open = Rate(random, 300, 1'000);
  faults.task_hangs = Rate(random, 20, 200);
  faults.task_fails = Rate(random, 50, 500);
  faults.latency_max = random->Span(1, 40);
  faults.commit_max = random->Span(0, 30);
  faults.coordinator_crash_period = Period(random, 500, 10'000);
  faults.worker_crash_period = Period(random, 200, 5'000);
  faults.disconnect_period = Period(random, 100, 5'000);
  faults.stall_period = Period(random, 1'000, 10'000);
  faults.drain_period = Period(random, 2'000, 20'000);
  faults.snapshot_period = Period(random, 300, 5'000);
  return faults;
}

}  // namespace

std::vector<CanarySpec> SimCanaries() {
  PolicyTimes times;
  times.build_timeout = times.load_timeout = Milliseconds(500);
  times.first_call_timeout = Milliseconds(1'000);
  times.call_timeout = times.timed_max = Milliseconds(50);
  return {{.name = "incorrect",
           .payload = "incorrect",
           .times = times,
           .expected = VerdictKind::kIncorrect},
          {.name = "valid", .payload = "valid", .times = times, .speedup_max = kLiedSpeedup / 2}};
}

SimOptions DrawOptions(uint64_t seed) {
  Random random(seed ^ 0x5bd1e995ULL);
  SimOptions options;
  options.seed = seed;
  options.core = DrawLimits(&random);
  options.faults = DrawFaults(&random);
  options.compile_workers = random.Count(1, 3);
  options.gpu_workers = random.Count(1, 4);
  options.slots_max = random.Count(1, 4);
  options.gpu_classes = random.Count(1, 2);
  options.runtimes = random.Chance(700) ? 1 : 2;
  options.principals = random.Count(1, 4);
  options.evaluations_per_principal = random.Count(1, 15);
  options.keyed = random.Count(0, 1'000);
  options.key_reused = Rate(&random, 50, 300);
  options.cancelled = Rate(&random, 100, 500);
  options.late_builds = Rate(&random, 200, 800);
  options.arrival_max = random.Span(100, 15'000);
  options.work_max = random.Span(50, 1'500);
  options.faults_end = random.Span(5'000, 20'000);
  options.core.retry_delay = random.Chance(300) ? Milliseconds(0) : random.Span(1, 2'000);
  options.core.retry_delay_max = options.core.retry_delay * random.Between(1, 20);
  if (random.Chance(500)) {
    options.core.canaries = SimCanaries();
    options.core.canary_interval = random.Span(1'000, 10'000);
    options.faults.liars = Rate(&random, 100, 700);
  }
  return options;
}

std::string Describe(const SimOptions& options) {
  return absl::StrCat("seed ", options.seed, ": ", options.compile_workers, " compile and ",
                      options.gpu_workers, " GPU workers, ", options.principals, " x ",
                      options.evaluations_per_principal, " evaluations, queues ",
                      options.core.queue_compile_max, "/", options.core.queue_run_max,
                      ", attempts ", options.core.attempts_max, ", crash every ",
                      options.faults.coordinator_crash_period.count(), "/",
                      options.faults.worker_crash_period.count(), " ms, lost ",
                      options.faults.message_lost, " permille");
}

}  // namespace pike::coordinator::sim
