#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// Why the task itself could not go on. See PROTOCOL.md, `task_failed`.
struct TaskFailure {
  std::string where;
  std::string kind;
  std::string error_type;
  std::string text;
};

// A dense tensor in the memory of the bench's device (bench_device.h) that belongs to whoever made
// it. `spec.offset` has no meaning.
struct TaskTensor {
  TensorSpec spec = {};
  const uint8_t* bytes = nullptr;
};

// A sealed file in memory.
struct InputFile {
  UniqueFd fd;
  std::size_t size = 0;
};

// Arguments or outputs of a call; `text` in the grammar of CallRecord.
struct TaskValue {
  std::string text;
  std::vector<TaskTensor> tensors;
  // Of an input on device cpu: what runners get of it; see BenchDevice::Share.
  std::shared_ptr<const InputFile> file;
};

// Bounds of a stock of inputs.
struct StockLimits {
  uint32_t inputs = 0;  // at most so many in stock
  std::size_t bytes_max = 0;
  std::chrono::milliseconds time_max{};
};

// The task's own code in this process: input generator and reference.
class TaskSource {
 public:
  virtual ~TaskSource() = default;

  // Constructs the reference anew, as a runner constructs its model.
  virtual std::optional<TaskFailure> ResetReference() = 0;

  // Frees it until it is constructed anew, and the last input and output.
  virtual void ForgetReference() {}

  // Fills a stock of inputs, each under its own secret seed, until a limit is reached, memory runs
  // out or `is_aborted` says so (asked before each). What is in stock beyond the limits is dropped.
  virtual std::optional<TaskFailure> Stock(const StockLimits& limits,
                                           const std::function<bool()>& is_aborted) = 0;
  virtual std::size_t stock() const = 0;
  virtual std::size_t stock_bytes() const = 0;

  // The next input, from the stock or made now. Its memory is valid until the next NextInput, and
  // unchanged until RunReference.
  virtual std::optional<TaskFailure> NextInput(TaskValue& input) = 0;

  // Steps the reference on the last input, which it may change, and waits for it. The memory of
  // `output` (packed) is valid until the next NextInput.
  virtual std::optional<TaskFailure> RunReference(uint64_t rng_seed, TaskValue& output) = 0;
};

}  // namespace pike::gpu
