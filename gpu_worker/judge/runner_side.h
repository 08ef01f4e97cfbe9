#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/unique_fd.h"
#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/call_channel.h"
#include "gpu_worker/judge/task_source.h"
#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// A random number from the kernel.
uint64_t SecretNumber();

// What a runner answered to its last call, and the private snapshot of its outputs.
struct RunnerOutput {
  CallRecord reply = {};
  std::unique_ptr<PrivateBuffer> snapshot;
  uint64_t wall_ns = 0;
};

// One call to make.
struct CallOrder {
  uint64_t rng_seed = 0;
  std::chrono::nanoseconds timeout{};
  std::size_t output_bytes_max = 0;
};

// One runner as the judge sees it: its channel, its buffers, its last answer. Not thread-safe.
// Buffers are made for this runner and never used for another. The device must outlive it.
class RunnerSide {
 public:
  RunnerSide(BenchDevice& device, UniqueFd channel)
      : device_(device), channel_(std::move(channel)) {}

  // Whether the channel is quiet, as it must be between calls.
  std::optional<ChannelFault> CheckQuiet() { return channel_.CheckQuiet(); }

  // Calls the runner with `input` and snapshots its outputs. Without a fault, output() holds a
  // reply that is well formed; its status may still be a failure. A claim above the wall is a
  // violation. If the device or the system fails here, `failure` is set and the fault is kAborted.
  std::optional<ChannelFault> Call(const TaskValue& input, const CallOrder& order, Control& control,
                                   std::optional<TaskFailure>& failure);

  const RunnerOutput& output() const { return output_; }

 private:
  // Lays the tensors of `input` out in the call; false if they exceed the limits of a record.
  bool DescribeInput(const TaskValue& input, std::size_t& bytes);
  std::optional<TaskFailure> ReserveBuffers(std::size_t input_bytes, std::size_t output_bytes);
  std::optional<TaskFailure> WriteInput(const TaskValue& input);
  // Copies what the reply describes; a violation if it is malformed.
  std::optional<ChannelFault> TakeSnapshot(std::optional<TaskFailure>& failure);

  BenchDevice& device_;
  CallChannel channel_;
  std::unique_ptr<ExchangeBuffer> input_buffer_;
  std::unique_ptr<ExchangeBuffer> output_buffer_;
  CallRecord call_ = {};
  RunnerOutput output_;
};

// Bytes that the tensors of a value take in a buffer.
std::size_t BufferBytes(const TaskValue& value);

}  // namespace pike::gpu
