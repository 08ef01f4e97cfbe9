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

// The end of the last tensor that a reply describes; nothing if the description is malformed.
std::optional<std::size_t> FindOutputEnd(const CallRecord& reply, std::size_t buffer_bytes) {
  if (reply.tensor_count > kTensorsMax)
    return std::nullopt;
  std::size_t end = 0;
  for (std::size_t i = 0; i < reply.tensor_count; ++i) {
    const TensorSpec& spec = reply.tensors[i];
    const std::optional<uint64_t> bytes = PackedBytes(spec);
    if (!bytes || *bytes > buffer_bytes || spec.offset > buffer_bytes - *bytes)
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

std::size_t BufferBytes(const HostValue& value) {
  std::size_t bytes = 0;
  for (const HostTensor& tensor : value.tensors)
    bytes += AlignUp(PackedBytes(tensor.spec).value_or(0));
  return bytes;
}

bool RunnerSide::DescribeInput(const HostValue& input, std::size_t& bytes) {
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

bool RunnerSide::ReserveBuffers(std::size_t input_bytes, std::size_t output_bytes,
                                std::string& error) {
  if (input_buffer_.bytes() != nullptr && input_buffer_.size() >= input_bytes &&
      output_buffer_.size() >= output_bytes)
    return true;
  std::optional<SharedBuffer> input =
      SharedBuffer::Create(input_bytes, SharedBuffer::Access::kRunnerReads, error);
  if (!input)
    return false;
  std::optional<SharedBuffer> output =
      SharedBuffer::Create(output_bytes, SharedBuffer::Access::kRunnerWrites, error);
  if (!output)
    return false;
  input_buffer_ = std::move(*input);
  output_buffer_ = std::move(*output);
  call_.flags |= kHasBuffers;
  return true;
}

std::optional<ChannelFault> RunnerSide::TakeSnapshot() {
  const CallRecord& reply = output_.reply;
  if (reply.text_bytes > kTextBytesMax || reply.tensor_count > kTensorsMax ||
      reply.status > CallStatus::kMemory)
    return ChannelFault{CallFault::kViolation, "a malformed reply was sent"};
  if (reply.status != CallStatus::kOk)
    return std::nullopt;
  const std::optional<std::size_t> end = FindOutputEnd(reply, output_buffer_.size());
  if (!end)
    return ChannelFault{CallFault::kViolation, "a malformed reply was sent"};
  if (output_.snapshot == nullptr || *end > output_.snapshot_bytes_max) {
    output_.snapshot = std::make_unique_for_overwrite<uint8_t[]>(*end + 1);
    output_.snapshot_bytes_max = *end;
  }
  if (*end > 0)
    memcpy(output_.snapshot.get(), output_buffer_.bytes(), *end);
  return std::nullopt;
}

std::optional<ChannelFault> RunnerSide::Call(const HostValue& input, const CallOrder& order,
                                             const Control& control, std::string& error) {
  std::size_t input_bytes = 0;
  if (!DescribeInput(input, input_bytes)) {
    error = "the arguments do not fit into a call record";
    return ChannelFault{CallFault::kAborted, ""};
  }
  if (!ReserveBuffers(input_bytes, order.output_bytes_max, error))
    return ChannelFault{CallFault::kAborted, ""};
  std::optional<ChannelFault> fault = channel_.CheckQuiet();
  if (fault)
    return fault;
  call_.nonce = SecretNumber();
  call_.rng_seed = order.rng_seed;

  // The clock starts before the first byte of the input is readable there, so that a runner that
  // does not wait for its record gains nothing.
  const uint64_t start_ns = NowNs();
  for (std::size_t i = 0; i < input.tensors.size(); ++i) {
    const TensorSpec& spec = call_.tensors[i];
    const std::size_t bytes = PackedBytes(spec).value_or(0);
    if (bytes > 0)
      memcpy(input_buffer_.bytes() + spec.offset, input.tensors[i].bytes, bytes);
  }
  fault = channel_.Send(call_, input_buffer_.fd(), output_buffer_.fd());
  if (!fault)
    fault = channel_.AwaitReply(call_.nonce, order.timeout, control, output_.reply);
  if (!fault)
    fault = TakeSnapshot();
  output_.wall_ns = NowNs() - start_ns;
  if (!fault && output_.reply.claim_ns > output_.wall_ns)
    return ChannelFault{CallFault::kViolation, "the runner's clock exceeds the judge's"};
  return fault;
}

}  // namespace pike::gpu
