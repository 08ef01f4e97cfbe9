#include "gpu_worker/judge/evaluation.h"

#include <string.h>

#include <numeric>
#include <string_view>
#include <utility>

namespace pike::gpu {
namespace {

constexpr std::size_t kOutputSlackBytes = 1 << 20;
constexpr uint32_t kTimedCallsMin = 3;
constexpr uint32_t kStockCallsMin = 10;
constexpr int kUnclaimedFactor = 4;
constexpr uint64_t kPublicSeedMask = 0x7fffffffffffffff;  // torch.manual_seed takes 63 bits

void SetChannelFault(const ChannelFault& fault, SideName side, OperationResult& result) {
  result.text = fault.text;
  result.side = side;
  switch (fault.fault) {
    case CallFault::kGone:
      result.outcome = Outcome::kRunnerGone;
      return;
    case CallFault::kTimeout:
      result.outcome = Outcome::kCallTimeout;
      return;
    case CallFault::kViolation:
      result.outcome = Outcome::kViolation;
      return;
    case CallFault::kAborted:
      result.outcome = Outcome::kAborted;
      result.side = SideName::kNone;
      return;
  }
}

void SetTaskFailure(TaskFailure failure, OperationResult& result) {
  result.outcome = Outcome::kTaskFailed;
  result.task_failure = std::move(failure);
}

// Splits the text of a failed call: "type\0message".
void SetCallFailure(const CallRecord& reply, SideName side, OperationResult& result) {
  const std::string_view text(reply.text, reply.text_bytes);
  const std::size_t split = text.find('\0');
  result.outcome = Outcome::kCallFailed;
  result.side = side;
  result.kind = reply.status == CallStatus::kMemory ? "memory" : "exception";
  result.error_type = std::string(text.substr(0, split));
  result.text = split == std::string_view::npos ? "" : std::string(text.substr(split + 1));
}

bool IsLongEnough(const std::vector<uint64_t>& samples_ns, std::chrono::nanoseconds wanted) {
  const uint64_t sum = std::accumulate(samples_ns.begin(), samples_ns.end(), uint64_t{0});
  return sum >= static_cast<uint64_t>(wanted.count());
}

std::size_t FindOutputBytesMax(const Bench& bench) {
  return 2 * bench.output_bytes_typical + kOutputSlackBytes;
}

// The reference is as precise as it is.
ComparePolicy OfReference(ComparePolicy policy) {
  policy.least = {};
  return policy;
}

// One call of one runner. False: `result` says why.
bool CallRunner(RunnerSide& runner, SideName side, const TaskValue& input, const CallOrder& order,
                Control& control, OperationResult& result) {
  std::optional<TaskFailure> failure;
  const std::optional<ChannelFault> fault = runner.Call(input, order, control, failure);
  if (failure) {
    SetTaskFailure(std::move(*failure), result);
    return false;
  }
  if (fault) {
    SetChannelFault(*fault, side, result);
    return false;
  }
  const CallRecord& reply = runner.output().reply;
  if (reply.status == CallStatus::kRaised || reply.status == CallStatus::kMemory) {
    SetCallFailure(reply, side, result);
    return false;
  }
  return true;
}

}  // namespace

Evaluation::Evaluation(const Bench& bench, const EvaluationPolicy& policy,
                       UniqueFd candidate_channel, UniqueFd reference_channel)
    : task_(bench.task),
      policy_(policy),
      output_bytes_max_(FindOutputBytesMax(bench)),
      candidate_(bench.device, std::move(candidate_channel)),
      reference_(bench.device, std::move(reference_channel)),
      candidate_check_(bench.device, policy.compare),
      reference_check_(bench.device, OfReference(policy.compare)) {}

OperationResult Evaluation::FirstCall(Control& control) {
  OperationResult result;
  RunCall({.timeout = policy_.first_call_timeout}, control, result);
  return result;
}

OperationResult Evaluation::Verify(uint32_t calls, Control& control) {
  OperationResult result;
  for (uint32_t i = 0; i < calls; ++i) {
    if (!RunCall({.timeout = policy_.call_timeout}, control, result))
      break;
  }
  return result;
}

OperationResult Evaluation::Measure(const MeasurePolicy& policy, Control& control) {
  OperationResult result;
  CallPlan plan = {.timeout = policy_.call_timeout, .has_turns = policy.has_turns};
  turn_ = SideName::kNone;  // both run when an operation starts
  for (uint32_t i = 0; i < policy.warmup_calls; ++i) {
    if (!RunCall(plan, control, result))
      return result;
  }
  Samples& samples = result.samples;
  // Inputs that were made ahead set the end: making more would take the lock's time.
  const bool has_stock = task_.stock() > 0;
  for (uint32_t i = 0; i < policy.timed_calls_max; ++i) {
    plan.is_reference_first = i % 2 == 1;
    if (!RunCall(plan, control, result))
      return result;
    samples.candidate_claim_ns.push_back(candidate_.output().reply.claim_ns);
    samples.candidate_wall_ns.push_back(candidate_.output().wall_ns);
    samples.candidate_copy_ns.push_back(candidate_.output().copy_ns);
    samples.candidate_return_ns.push_back(candidate_.output().reply.return_ns);
    samples.reference_claim_ns.push_back(reference_.output().reply.claim_ns);
    samples.reference_wall_ns.push_back(reference_.output().wall_ns);
    samples.reference_copy_ns.push_back(reference_.output().copy_ns);
    samples.reference_return_ns.push_back(reference_.output().reply.return_ns);
    // The reference's time decides, or the candidate's if it owns up to it: one that makes a call
    // long without claiming it must not choose to be measured in few. Its patience is bounded.
    if (i + 1 >= kTimedCallsMin &&
        (IsLongEnough(samples.candidate_claim_ns, policy.timed_max) ||
         IsLongEnough(samples.candidate_wall_ns, kUnclaimedFactor * policy.timed_max) ||
         IsLongEnough(samples.reference_wall_ns, policy.timed_max)))
      break;
    if (i + 1 >= kStockCallsMin && has_stock && task_.stock() == 0)
      break;
  }
  return result;
}

std::string Evaluation::Finish() {
  for (const SideName side : {SideName::kCandidate, SideName::kReference}) {
    const std::optional<ChannelFault> fault = Side(side).CheckQuiet();
    if (fault && fault->fault == CallFault::kViolation)
      return (side == SideName::kCandidate ? "candidate: " : "reference: ") + fault->text;
  }
  return "";
}

bool Evaluation::RunCall(const CallPlan& plan, Control& control, OperationResult& result) {
  result.call = ++call_;
  TaskValue input;
  std::optional<TaskFailure> failure = task_.NextInput(input);
  if (failure) {
    SetTaskFailure(std::move(*failure), result);
    return false;
  }
  const CallOrder order = {.rng_seed = SecretNumber() & kPublicSeedMask,
                           .timeout = plan.timeout,
                           .output_bytes_max = output_bytes_max_};
  const SideName first = plan.is_reference_first ? SideName::kReference : SideName::kCandidate;
  const SideName second = plan.is_reference_first ? SideName::kCandidate : SideName::kReference;
  return TakeTurn(first, plan, control, result) &&
         CallRunner(Side(first), first, input, order, control, result) &&
         TakeTurn(second, plan, control, result) &&
         CallRunner(Side(second), second, input, order, control, result) &&
         CompareOutputs(order.rng_seed, result);
}

bool Evaluation::TakeTurn(SideName side, const CallPlan& plan, Control& control,
                          OperationResult& result) {
  if (!plan.has_turns || side == turn_)
    return true;
  control.is_held = true;
  control.ask_turn(side == SideName::kCandidate ? "candidate" : "reference");
  const std::optional<ChannelFault> fault = CallChannel::AwaitResume(control);
  if (fault) {
    SetChannelFault(*fault, side, result);
    return false;
  }
  turn_ = side;
  return true;
}

bool Evaluation::CompareOutputs(uint64_t rng_seed, OperationResult& result) {
  TaskValue expected;
  std::optional<TaskFailure> failure = task_.RunReference(rng_seed, expected);
  if (!failure && BufferBytes(expected) > output_bytes_max_) {
    failure = {.where = "outputs",
               .kind = "exception",
               .error_type = "",
               .text = "the reference's outputs vary too much in size"};
  }
  if (failure) {
    SetTaskFailure(std::move(*failure), result);
    return false;
  }
  const bool is_reference_right = reference_check_.Add(call_, expected, reference_.output());
  const bool is_candidate_right = candidate_check_.Add(call_, expected, candidate_.output());
  for (const OutputCheck* check : {&reference_check_, &candidate_check_}) {
    if (check->task_failure()) {
      SetTaskFailure(*check->task_failure(), result);
      return false;
    }
  }
  if (is_candidate_right && is_reference_right)
    return true;
  result.outcome = Outcome::kMismatch;
  result.side = is_reference_right ? SideName::kCandidate : SideName::kReference;
  result.text =
      is_reference_right ? candidate_check_.first_failure() : reference_check_.first_failure();
  return false;
}

OperationResult CallUnscored(const Bench& bench, UniqueFd channel,
                             std::chrono::milliseconds timeout, Control& control) {
  OperationResult result;
  result.call = 1;
  TaskValue input;
  std::optional<TaskFailure> failure = bench.task.NextInput(input);
  if (failure) {
    SetTaskFailure(std::move(*failure), result);
    return result;
  }
  RunnerSide runner(bench.device, std::move(channel));
  const CallOrder order = {.rng_seed = SecretNumber() & kPublicSeedMask,
                           .timeout = timeout,
                           .output_bytes_max = FindOutputBytesMax(bench)};
  CallRunner(runner, SideName::kCandidate, input, order, control, result);
  return result;
}

}  // namespace pike::gpu
