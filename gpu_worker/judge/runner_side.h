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

// What a runner answered to its last call, and the private snapshot of its outputs.
struct RunnerOutput {
  CallRecord reply = {};
  std::unique_ptr<PrivateBuffer> snapshot;
  uint64_t wall_ns = 0;
  uint64_t copy_ns = 0;  // of it: the judge's own copying
};

// One call to make.
struct CallOrder {
  uint64_t rng_seed = 0;
  std::chrono::nanoseconds timeout{};
  std::size_t output_bytes_max = 0;
};

// One runner as the judge sees it: its channel, its last answer. Not thread-safe. The device must
// outlive it.
class RunnerSide {
 public:
  RunnerSide(BenchDevice& device, UniqueFd channel)
      : transport_(device.NewTransport()), channel_(std::move(channel)) {}

  // Whether the channel is quiet, as it must be between calls.
  std::optional<ChannelFault> CheckQuiet() { return channel_.CheckQuiet(); }

  // Calls the runner with `input` and snapshots its outputs. Without a fault, output() holds a
  // reply that is well formed; its status may still be a failure. A claim above the wall is a
  // violation. If the device or the system fails here, `failure` is set and the fault is kAborted.
  std::optional<ChannelFault> Call(const TaskValue& input, const CallOrder& order, Control& control,
                                   std::optional<TaskFailure>& failure);

  const RunnerOutput& output() const { return output_; }

 private:
  // Where a failure of the task or the device goes, beside a fault kAborted.
  using Failure = std::optional<TaskFailure>;

  // One record and its answer.
  std::optional<ChannelFault> Exchange(CallRecord& record, const std::vector<int>& fds,
                                       std::chrono::nanoseconds timeout, Control& control);
  // The timed part.
  std::optional<ChannelFault> CallOnce(const TaskValue& input, const CallOrder& order,
                                       Control& control, Failure& failure);
  std::optional<ChannelFault> TakeSnapshot(Failure& failure);

  const std::unique_ptr<CallTransport> transport_;
  CallChannel channel_;
  CallRecord record_ = {};  // the last one sent
  CallRecord answer_ = {};
  UniqueFd answer_fd_;
  RunnerOutput output_;
};

}  // namespace pike::gpu
