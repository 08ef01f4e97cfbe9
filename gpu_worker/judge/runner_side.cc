#include "gpu_worker/judge/runner_side.h"

#include <string.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "gpu_worker/judge/element_type.h"

namespace pike::gpu {
namespace {

std::size_t AlignUp(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// Bytes from the first to behind the last element of a packed tensor, or with `has_strides` of one
// whose strides are those of the reply; nothing if the description is not acceptable.
std::optional<uint64_t> FindSpan(const TensorSpec& spec, bool has_strides) {
  const std::optional<uint64_t> packed = PackedBytes(spec);
  if (!packed || *packed == 0 || !has_strides)
    return packed;
  constexpr uint64_t kElementsMax = uint64_t{1} << 40;
  uint64_t last = 0;
  for (std::size_t i = 0; i < spec.dim_count; ++i) {
    const uint64_t steps = static_cast<uint64_t>(spec.dims[i]) - 1;
    if (spec.strides[i] < 0 || static_cast<uint64_t>(spec.strides[i]) > kElementsMax)
      return std::nullopt;
    const uint64_t stride = static_cast<uint64_t>(spec.strides[i]);
    if (steps > 0 && stride > kElementsMax / steps)
      return std::nullopt;
    last += steps * stride;  // at most 12 times 2^40
  }
  return (last + 1) * (spec.bits / 8u);
}

// The end of the last tensor that a reply describes; nothing if the description is malformed.
std::optional<std::size_t> FindOutputEnd(const CallRecord& reply, std::size_t buffer_bytes,
                                         bool has_strides) {
  if (reply.tensor_count > kTensorsMax)
    return std::nullopt;
  std::size_t end = 0;
  for (std::size_t i = 0; i < reply.tensor_count; ++i) {
    const TensorSpec& spec = reply.tensors[i];
    const std::optional<uint64_t> bytes = FindSpan(spec, has_strides);
    if (!bytes || *bytes > buffer_bytes || spec.offset > buffer_bytes - *bytes ||
        spec.offset % kBufferAlignment != 0)
      return std::nullopt;
    end = std::max<std::size_t>(end, spec.offset + *bytes);
  }
  return end;
}

}  // namespace

uint64_t SecretNumber() {
  uint64_t number = 0;
  PIKE_CHECK(getrandom(&number, sizeof(number), /*flags=*/0) ==
             static_cast<ssize_t>(sizeof(number)));
  return number;
}

std::size_t BufferBytes(const TaskValue& value) {
  std::size_t bytes = 0;
  for (const TaskTensor& tensor : value.tensors)
    bytes += AlignUp(PackedBytes(tensor.spec).value_or(0));
  return bytes;
}

bool RunnerSide::DescribeInput(const TaskValue& input, std::size_t& bytes) {
  if (input.text.size() > kTextBytesMax || input.tensors.size() > kTensorsMax)
    return false;
  call_ = {};
  call_.magic = kCallMagic;
  call_.kind = RecordKind::kCall;
  call_.text_bytes = static_cast<uint32_t>(input.text.size());
  memcpy(call_.text, input.text.data(), input.text.size());
  call_.tensor_count = static_cast<uint32_t>(input.tensors.size());
  bytes = 0;
  for (std::size_t i = 0; i < input.tensors.size(); ++i) {
    call_.tensors[i] = input.tensors[i].spec;
    call_.tensors[i].offset = bytes;
    bytes += AlignUp(PackedBytes(input.tensors[i].spec).value_or(0));
  }
  return true;
}

std::optional<TaskFailure> RunnerSide::ReserveBuffers(std::size_t input_bytes,
                                                      std::size_t output_bytes) {
  if (input_buffer_ && output_buffer_ && input_buffer_->size() >= input_bytes &&
      output_buffer_->size() >= output_bytes)
    return std::nullopt;
  input_buffer_.reset();  // first, so that both need not fit at once
  output_buffer_.reset();
  std::optional<TaskFailure> failure =
      device_.NewExchange(input_bytes, BenchDevice::Access::kRunnerReads, input_buffer_);
  if (!failure)
    failure = device_.NewExchange(output_bytes, BenchDevice::Access::kRunnerWrites, output_buffer_);
  if (failure) {
    output_buffer_.reset();
    return failure;
  }
  call_.flags |= input_buffer_->flags();
  return std::nullopt;
}

std::optional<TaskFailure> RunnerSide::WriteInput(const TaskValue& input) {
  for (std::size_t i = 0; i < input.tensors.size(); ++i) {
    const TensorSpec& spec = call_.tensors[i];
    std::optional<TaskFailure> failure =
        input_buffer_->Write(spec.offset, input.tensors[i].bytes, PackedBytes(spec).value_or(0));
    if (failure)
      return failure;
  }
  return device_.Finish();
}

std::optional<ChannelFault> RunnerSide::TakeSnapshot(std::optional<TaskFailure>& failure) {
  const CallRecord& reply = output_.reply;
  if (reply.text_bytes > kTextBytesMax || reply.tensor_count > kTensorsMax ||
      reply.status > CallStatus::kMemory)
    return ChannelFault{CallFault::kViolation, "a malformed reply was sent"};
  if (reply.status != CallStatus::kOk)
    return std::nullopt;
  const std::optional<std::size_t> end =
      FindOutputEnd(reply, output_buffer_->size(), device_.has_strides());
  if (!end)
    return ChannelFault{CallFault::kViolation, "a malformed reply was sent"};
  if (output_.snapshot == nullptr || *end > output_.snapshot->size()) {
    output_.snapshot.reset();
    failure = device_.NewPrivate(*end, output_.snapshot);
  }
  if (!failure)
    failure = output_buffer_->Read(output_.snapshot->bytes(), *end);
  if (!failure)
    failure = device_.Finish();
  if (failure)
    return ChannelFault{CallFault::kAborted, ""};
  return std::nullopt;
}

std::optional<ChannelFault> RunnerSide::Call(const TaskValue& input, const CallOrder& order,
                                             Control& control,
                                             std::optional<TaskFailure>& failure) {
  std::size_t input_bytes = 0;
  if (!DescribeInput(input, input_bytes)) {
    failure = {.where = "inputs",
               .kind = "exception",
               .error_type = "",
               .text = "the arguments do not fit into a call record"};
    return ChannelFault{CallFault::kAborted, ""};
  }
  failure = ReserveBuffers(input_bytes, order.output_bytes_max);
  if (!failure)
    failure = device_.Finish();  // nothing of ours runs on when the clock starts
  if (failure)
    return ChannelFault{CallFault::kAborted, ""};
  std::optional<ChannelFault> fault = CallChannel::AwaitResume(control);
  if (!fault)
    fault = channel_.CheckQuiet();
  if (fault)
    return fault;
  call_.nonce = SecretNumber();
  call_.rng_seed = order.rng_seed;
  call_.input_buffer_bytes = input_buffer_->size();
  call_.output_buffer_bytes = output_buffer_->size();

  // The clock starts before the first byte of the input is readable there, so that a runner that
  // does not wait for its record gains nothing.
  const uint64_t start_ns = NowNs();
  failure = WriteInput(input);
  if (failure)
    return ChannelFault{CallFault::kAborted, ""};
  fault = channel_.Send(call_, input_buffer_->fd(), output_buffer_->fd());
  if (!fault)
    fault = channel_.AwaitReply(call_.nonce, order.timeout, control, output_.reply);
  if (!fault)
    fault = TakeSnapshot(failure);
  output_.wall_ns = NowNs() - start_ns;
  if (!fault && output_.reply.claim_ns > output_.wall_ns)
    return ChannelFault{CallFault::kViolation, "the runner's clock exceeds the judge's"};
  return fault;
}

}  // namespace pike::gpu
