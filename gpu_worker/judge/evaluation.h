#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/call_channel.h"
#include "gpu_worker/judge/output_check.h"
#include "gpu_worker/judge/runner_side.h"
#include "gpu_worker/judge/task_source.h"

namespace pike::gpu {

struct EvaluationPolicy {
  ComparePolicy compare;
  std::chrono::milliseconds first_call_timeout{300'000};
  std::chrono::milliseconds call_timeout{60'000};
};

struct MeasurePolicy {
  uint32_t warmup_calls = 3;
  uint32_t timed_calls_max = 100;
  std::chrono::milliseconds timed_max{500};
  // While one side's runner is called the other's stands still.
  bool has_turns = false;
};

enum class Outcome {
  kDone,
  kMismatch,
  kCallFailed,
  kRunnerGone,
  kCallTimeout,
  kViolation,
  kAborted,
  kTaskFailed,
};

enum class SideName { kNone, kCandidate, kReference };

// Timed calls of both sides, in nanoseconds. All have equal lengths.
struct Samples {
  std::vector<uint64_t> candidate_claim_ns;
  std::vector<uint64_t> candidate_wall_ns;
  std::vector<uint64_t> candidate_copy_ns;
  std::vector<uint64_t> candidate_return_ns;
  std::vector<uint64_t> reference_claim_ns;
  std::vector<uint64_t> reference_wall_ns;
  std::vector<uint64_t> reference_copy_ns;
  std::vector<uint64_t> reference_return_ns;
};

// What evaluations of one task share.
struct Bench {
  TaskSource& task;
  BenchDevice& device;
  // What the reference's outputs took when the task was opened; a runner gets room for twice that
  // and 1 MiB.
  std::size_t output_bytes_typical = 0;
};

// How an operation ended; see PROTOCOL.md, `result`.
struct OperationResult {
  Outcome outcome = Outcome::kDone;
  SideName side = SideName::kNone;
  uint32_t call = 0;
  std::string text;
  std::string error_type;
  std::string kind;
  std::optional<TaskFailure> task_failure;
  Samples samples;
};

// One candidate against one task: makes inputs, calls both runners, steps the judge's own reference
// afterwards, compares. After an outcome other than kDone nothing more may be called but Finish.
// Not thread-safe. The bench must outlive it.
class Evaluation {
 public:
  Evaluation(const Bench& bench, const EvaluationPolicy& policy, UniqueFd candidate_channel,
             UniqueFd reference_channel);

  OperationResult FirstCall(Control& control);
  OperationResult Verify(uint32_t calls, Control& control);
  OperationResult Measure(const MeasurePolicy& policy, Control& control);

  // The last look at both channels: what was unexpected in one line, or an empty text.
  std::string Finish();

  const OutputCheck& candidate_check() const { return candidate_check_; }
  const OutputCheck& reference_check() const { return reference_check_; }

 private:
  struct CallPlan {
    std::chrono::milliseconds timeout{};
    bool is_reference_first = false;
    bool has_turns = false;
  };

  // One input through both runners and the judge's reference. False: `result` says why.
  bool RunCall(const CallPlan& plan, Control& control, OperationResult& result);
  // Waits until the runner of `side` may run and the other stands still.
  bool TakeTurn(SideName side, const CallPlan& plan, Control& control, OperationResult& result);
  bool CompareOutputs(uint64_t rng_seed, OperationResult& result);
  RunnerSide& Side(SideName side) { return side == SideName::kCandidate ? candidate_ : reference_; }

  TaskSource& task_;
  const EvaluationPolicy policy_;
  const std::size_t output_bytes_max_;
  RunnerSide candidate_;
  RunnerSide reference_;
  OutputCheck candidate_check_;
  OutputCheck reference_check_;
  uint32_t call_ = 0;
  SideName turn_ = SideName::kNone;  // in a measurement in turns: whose it is
};

// One call to a candidate without a reference and without a comparison, on an input of its own:
// what it compiles in its first call is compiled then.
OperationResult CallUnscored(const Bench& bench, UniqueFd channel,
                             std::chrono::milliseconds timeout, Control& control);

}  // namespace pike::gpu
