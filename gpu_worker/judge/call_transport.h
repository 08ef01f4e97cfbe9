#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "gpu_worker/judge/task_source.h"
#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

class PrivateBuffer;

// A buffer shared with one runner, which may write to it at any time: only copies of it are read.
class ExchangeBuffer {
 public:
  virtual ~ExchangeBuffer() = default;
  virtual int fd() const = 0;
  virtual std::size_t size() const = 0;
  // RecordFlags that tell the runner what `fd` is.
  virtual uint32_t flags() const = 0;
  // Queue copies from and to private memory of the device.
  virtual std::optional<TaskFailure> Write(std::size_t offset, const void* from,
                                           std::size_t bytes) = 0;
  virtual std::optional<TaskFailure> Read(void* to, std::size_t bytes) = 0;
};

// How the taking of outputs went: neither is set, or the device's failure, or in one line what was
// wrong with the reply.
struct TakenOutputs {
  std::optional<TaskFailure> failure;
  std::string violation;
};

// How the bytes of inputs and outputs get to one runner and back. The functions are called in this
// order for each call. Not thread-safe.
class CallTransport {
 public:
  virtual ~CallTransport() = default;

  // Before the clock. Completes the record of kPrepare; descriptors in `fds` go along with it.
  virtual std::optional<TaskFailure> Prepare(std::size_t input_bytes, std::size_t output_bytes_max,
                                             CallRecord& prepare, std::vector<int>& fds) = 0;
  // A descriptor that came with the first answer. An empty text, or what is wrong with it.
  virtual std::string TakeDescriptor(UniqueFd fd) = 0;
  // After the clock's start: from now on the runner can read the input. Likewise for kCall, whose
  // tensors have their places already.
  virtual std::optional<TaskFailure> Reveal(const TaskValue& input, CallRecord& call,
                                            std::vector<int>& fds) = 0;
  // Copies the outputs that a reply with kOk describes to private memory of the device.
  virtual TakenOutputs Take(const CallRecord& reply, std::unique_ptr<PrivateBuffer>& snapshot) = 0;
  // Off the clock: `reply` describes the snapshot then, on device cpu as packed tensors.
  virtual void Arrange(CallRecord& reply, PrivateBuffer& snapshot) = 0;
  // What of Take were the judge's own copies.
  virtual uint64_t copy_ns() const = 0;
};

using NewExchange = std::function<std::optional<TaskFailure>(
    std::size_t bytes, std::unique_ptr<ExchangeBuffer>& buffer)>;

// By buffers in memory of the GPU, or in host memory that it reaches. They are made for this runner
// and never used for another.
std::unique_ptr<CallTransport> NewBufferTransport(class BenchDevice& device,
                                                  NewExchange new_exchange);

// Device cpu: inputs by a memfd for each, outputs read from the runner's own memory.
std::unique_ptr<CallTransport> NewHostTransport();

// The memfd of an input, which nobody can write to any more. Its tensors lie as PlaceTensors says.
std::optional<TaskFailure> MakeInputFile(const TaskValue& input, InputFile& file);

// Bytes that the tensors of a value take one after the other, each aligned.
std::size_t BufferBytes(const TaskValue& value);

// Where each tensor of `input` lies, in the tensors of the record; false if it exceeds a record's
// limits.
bool PlaceTensors(const TaskValue& input, CallRecord& call);

// Bytes from the first to behind the last element of a tensor in memory; nothing if its description
// is not acceptable.
std::optional<uint64_t> FindSpan(const TensorSpec& spec);

uint64_t NowNs();

// A random number from the kernel.
uint64_t SecretNumber();

}  // namespace pike::gpu
