#include "gpu_worker/judge/runner_side.h"

#include <string.h>

#include <utility>
#include <vector>

namespace pike::gpu {
namespace {

CallRecord NewRecord(RecordKind kind) {
  CallRecord record = {};
  record.magic = kCallMagic;
  record.kind = kind;
  return record;
}

RecordKind AnswerTo(RecordKind kind) {
  return kind == RecordKind::kPrepare ? RecordKind::kReady
         : kind == RecordKind::kCall  ? RecordKind::kReply
                                      : RecordKind::kReleased;
}

}  // namespace

std::optional<ChannelFault> RunnerSide::Exchange(CallRecord& record, const std::vector<int>& fds,
                                                 std::chrono::nanoseconds timeout,
                                                 Control& control) {
  record.nonce = SecretNumber();
  std::optional<ChannelFault> fault = channel_.Send(record, fds);
  if (!fault) {
    fault = channel_.AwaitReply(
        {.kind = AnswerTo(record.kind), .nonce = record.nonce, .fd = &answer_fd_}, timeout, control,
        answer_);
  }
  if (!fault && (answer_.text_bytes > kTextBytesMax || answer_.tensor_count > kTensorsMax ||
                 answer_.status > CallStatus::kMemory))
    return ChannelFault{CallFault::kViolation, "a malformed reply was sent"};
  return fault;
}

std::optional<ChannelFault> RunnerSide::TakeSnapshot(Failure& failure) {
  if (output_.reply.status != CallStatus::kOk)
    return std::nullopt;
  TakenOutputs taken = transport_->Take(output_.reply, output_.snapshot);
  output_.copy_ns = transport_->copy_ns();
  failure = std::move(taken.failure);
  if (failure)
    return ChannelFault{CallFault::kAborted, ""};
  if (!taken.violation.empty())
    return ChannelFault{CallFault::kViolation, std::move(taken.violation)};
  return std::nullopt;
}

std::optional<ChannelFault> RunnerSide::CallOnce(const TaskValue& input, const CallOrder& order,
                                                 Control& control, Failure& failure) {
  record_ = NewRecord(RecordKind::kCall);
  std::vector<int> fds;
  if (!PlaceTensors(input, record_)) {
    failure = {.where = "inputs",
               .kind = "exception",
               .error_type = "",
               .text = "the arguments do not fit into a call record"};
    return ChannelFault{CallFault::kAborted, ""};
  }
  std::optional<ChannelFault> fault = channel_.CheckQuiet();
  if (fault)
    return fault;
  // The clock starts before the first byte of the input is readable there, so that a runner that
  // does not wait for its record gains nothing.
  const uint64_t start_ns = NowNs();
  failure = transport_->Reveal(input, record_, fds);
  if (failure)
    return ChannelFault{CallFault::kAborted, ""};
  fault = Exchange(record_, fds, order.timeout, control);
  output_.reply = answer_;
  output_.copy_ns = 0;
  if (!fault)
    fault = TakeSnapshot(failure);
  output_.wall_ns = NowNs() - start_ns;
  return fault;
}

std::optional<ChannelFault> RunnerSide::Call(const TaskValue& input, const CallOrder& order,
                                             Control& control,
                                             std::optional<TaskFailure>& failure) {
  std::optional<ChannelFault> fault = CallChannel::AwaitResume(control);
  if (!fault)
    fault = channel_.CheckQuiet();
  if (fault)
    return fault;
  record_ = NewRecord(RecordKind::kPrepare);
  record_.rng_seed = order.rng_seed;
  std::vector<int> fds;
  failure = transport_->Prepare(BufferBytes(input), order.output_bytes_max, record_, fds);
  if (failure)
    return ChannelFault{CallFault::kAborted, ""};
  fault = Exchange(record_, fds, order.timeout, control);
  if (fault)
    return fault;
  std::string violation = transport_->TakeDescriptor(std::move(answer_fd_));
  if (!violation.empty())
    return ChannelFault{CallFault::kViolation, std::move(violation)};
  output_.reply = answer_;
  if (answer_.status != CallStatus::kOk)
    return std::nullopt;  // it could not even begin
  fault = CallOnce(input, order, control, failure);
  if (fault)
    return fault;
  if (output_.reply.claim_ns > output_.wall_ns)
    return ChannelFault{CallFault::kViolation, "the runner's clock exceeds the judge's"};
  if (output_.reply.status != CallStatus::kOk)
    return std::nullopt;
  record_ = NewRecord(RecordKind::kRelease);
  fault = Exchange(record_, {}, order.timeout, control);
  if (fault)
    return fault;
  output_.reply.flags = answer_.flags;
  transport_->Arrange(output_.reply, *output_.snapshot);
  return std::nullopt;
}

}  // namespace pike::gpu
