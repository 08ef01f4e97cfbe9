#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// Why the task itself could not go on. See PROTOCOL.md, `task_failed`.
struct TaskFailure {
  std::string where;
  std::string kind;
  std::string error_type;
  std::string text;
};

// A dense tensor in host memory that belongs to whoever made it. `spec.offset` has no meaning.
struct HostTensor {
  TensorSpec spec = {};
  const uint8_t* bytes = nullptr;
};

// Arguments or outputs of a call; `text` in the grammar of CallRecord.
struct HostValue {
  std::string text;
  std::vector<HostTensor> tensors;
};

// The task's own code in this process: input generator and reference.
class TaskSource {
 public:
  virtual ~TaskSource() = default;

  // Constructs the reference anew, as a runner constructs its model.
  virtual std::optional<TaskFailure> ResetReference() = 0;

  // Makes an input under a secret seed. Its memory is valid until the next MakeInput, and unchanged
  // until RunReference.
  virtual std::optional<TaskFailure> MakeInput(uint64_t seed, HostValue& input) = 0;

  // Steps the reference on the last input, which it may change. The memory of `output` (packed) is
  // valid until the next MakeInput.
  virtual std::optional<TaskFailure> RunReference(uint64_t rng_seed, HostValue& output) = 0;
};

}  // namespace pike::gpu
