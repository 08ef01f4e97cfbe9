#include "coordinator/core/limits.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

namespace pike::coordinator {
namespace {

constexpr CoreLimits kDefaults;
static_assert(kDefaults.lease_timeout >= 2 * kDefaults.heartbeat_interval,
              "one late heartbeat must not lose a lease");
static_assert(kDefaults.worker_memory >= kDefaults.lease_timeout);
static_assert(kDefaults.evaluations_per_principal_max < kDefaults.queue_compile_max,
              "one principal must not be able to fill the queue");
static_assert(kDefaults.client_keys_max >= kDefaults.queue_compile_max);

// What a GPU worker does in one lease: it measures again where clocks disagree, and evaluates a
// would-be best once more.
constexpr int kMeasurementsMax = 3;
constexpr int kEvaluationsMax = 2;

class Problem {
 public:
  void CheckRange(absl::string_view name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      Add(absl::StrCat(name, " is ", value, ", not in ", low, " to ", high));
  }
  void Add(std::string line) { lines_.push_back(std::move(line)); }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> Problems(const CoreOptions& options) {
  Problem problem;
  problem.CheckRange("--queue-compile-max", options.queue_compile_max, 1, 1'000'000);
  problem.CheckRange("--queue-run-max", options.queue_run_max, 1, 1'000'000);
  problem.CheckRange("--principal-max", options.evaluations_per_principal_max, 1, 1'000'000);
  problem.CheckRange("client_keys_max", options.client_keys_max, 1, 1'000'000);
  problem.CheckRange("bests_max", options.bests_max, 1, 1'000'000);
  problem.CheckRange("verdicts_kept_max", options.verdicts_kept_max, 1, 1'000'000);
  problem.CheckRange("workers_max", options.workers_max, 1, 100'000);
  problem.CheckRange("slots_max", options.slots_max, 1, 1'024);
  problem.CheckRange("builds_per_worker_max", options.builds_per_worker_max, 1, 1'024);
  problem.CheckRange("attempts_max", options.attempts_max, 1, 10);
  problem.CheckRange("reason_bytes_max", options.reason_bytes_max, 16, 4'096);
  problem.CheckRange("--heartbeat-ms", options.heartbeat_interval.count(), 10, 60'000);
  problem.CheckRange("--deadline-margin-ms", options.deadline_margin.count(), 0, 600'000);
  problem.CheckRange("--lease-slack-ms", options.lease_slack.count(), 0, 3'600'000);
  problem.CheckRange("canary_interval_ms", options.canary_interval.count(), 1'000,
                     Milliseconds(std::chrono::hours(24 * 30)).count());
  problem.CheckRange("retry_delay_ms", options.retry_delay.count(), 0, 60'000);
  problem.CheckRange("retry_delay_max_ms", options.retry_delay_max.count(),
                     options.retry_delay.count(), 600'000);
  if (options.lease_timeout < 2 * options.heartbeat_interval)
    problem.Add("--lease-timeout-ms is less than twice --heartbeat-ms");
  if (options.worker_memory < options.lease_timeout)
    problem.Add("--worker-memory-ms is less than --lease-timeout-ms");
  if (!options.canaries.empty() &&
      std::none_of(options.canaries.begin(), options.canaries.end(),
                   [](const CanarySpec& canary) { return canary.is_in_first_round; }))
    problem.Add("no canary is in the first round");
  for (const std::string& gpu_class : options.gpu_classes) {
    if (gpu_class.empty())
      problem.Add("--gpu-class is empty");
  }
  return problem.Take();
}

Milliseconds RetryDelay(const CoreLimits& limits, uint32_t attempt) {
  Milliseconds delay = limits.retry_delay;
  for (uint32_t failed = 1; failed < attempt && delay < limits.retry_delay_max; ++failed)
    delay *= 10;
  return std::min(delay, limits.retry_delay_max);
}

Milliseconds RunTimeout(const PolicyTimes& times) {
  // In each call the candidate, the reference's runner and the judge's own reference take their
  // time; the first call's is longer for the two runners; at least three calls are timed.
  const Milliseconds measure =
      (int64_t{times.warmup_calls} + 3) * 3 * times.call_timeout + 8 * times.timed_max;
  const Milliseconds evaluate = times.load_timeout + 2 * times.build_timeout +
                                2 * times.first_call_timeout + times.call_timeout +
                                int64_t{times.correctness_trials} * 3 * times.call_timeout +
                                kMeasurementsMax * measure;
  return kEvaluationsMax * evaluate;
}

}  // namespace pike::coordinator
