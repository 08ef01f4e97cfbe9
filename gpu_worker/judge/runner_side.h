#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/unique_fd.h"
#include "gpu_worker/judge/call_channel.h"
#include "gpu_worker/judge/shared_buffer.h"
#include "gpu_worker/judge/task_source.h"
#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// A random number from the kernel.
uint64_t SecretNumber();

// What a runner answered to its last call, and the private snapshot of its outputs.
struct RunnerOutput {
  CallRecord reply = {};
  std::unique_ptr<uint8_t[]> snapshot;
  std::size_t snapshot_bytes_max = 0;
  uint64_t wall_ns = 0;
};

// One call to make.
struct CallOrder {
  uint64_t rng_seed = 0;
  std::chrono::nanoseconds timeout{};
  std::size_t output_bytes_max = 0;
};

// One runner as the judge sees it: its channel, its buffers, its last answer. Not thread-safe.
class RunnerSide {
 public:
  explicit RunnerSide(UniqueFd channel) : channel_(std::move(channel)) {}

  // Whether the channel is quiet, as it must be between calls.
  std::optional<ChannelFault> CheckQuiet() { return channel_.CheckQuiet(); }

  // Calls the runner with `input` and snapshots its outputs. Without a fault, output() holds a
  // reply that is well formed; its status may still be a failure. A claim above the wall is a
  // violation. If the system refuses memory, `error` is set and the fault is kAborted.
  std::optional<ChannelFault> Call(const HostValue& input, const CallOrder& order,
                                   const Control& control, std::string& error);

  const RunnerOutput& output() const { return output_; }

 private:
  // Lays the tensors of `input` out in the call; false if they exceed the limits of a record.
  bool DescribeInput(const HostValue& input, std::size_t& bytes);
  bool ReserveBuffers(std::size_t input_bytes, std::size_t output_bytes, std::string& error);
  // Copies what the reply describes; a violation if it is malformed.
  std::optional<ChannelFault> TakeSnapshot();

  CallChannel channel_;
  SharedBuffer input_buffer_;
  SharedBuffer output_buffer_;
  CallRecord call_ = {};
  RunnerOutput output_;
};

// Bytes that the tensors of a value take in a buffer.
std::size_t BufferBytes(const HostValue& value);

}  // namespace pike::gpu
