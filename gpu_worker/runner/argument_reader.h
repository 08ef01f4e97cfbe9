#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/python_ref.h"

namespace pike::gpu {

struct PrivateBlock;
struct PrivateBlockRelease {
  void operator()(PrivateBlock* block) const;
};

// The arguments of one call as Python objects over private memory: a candidate that keeps its input
// never sees the next one there. Needs the interpreter's lock throughout.
class CallArguments {
 public:
  // Copies the tensors of `call` from the input buffer. False with a Python exception set, for
  // instance for want of memory.
  bool Read(const CallRecord& call, const uint8_t* input_buffer, const PythonHooks& hooks);

  // A tuple.
  PyObject* tuple() const { return tuple_.get(); }

  // Whether the private memory still holds what the input buffer holds.
  bool IsUnchanged(const uint8_t* input_buffer) const;

 private:
  PyObject* ReadValue();
  PyObject* ReadTensor();
  PyObject* ReadSequence(char end);
  PyObject* ReadDict();
  // The digits up to `end`.
  std::string_view TakeUntil(char end);

  const CallRecord* call_ = nullptr;
  const uint8_t* input_buffer_ = nullptr;
  const PythonHooks* hooks_ = nullptr;
  std::string_view rest_;
  std::vector<std::unique_ptr<PrivateBlock, PrivateBlockRelease>> blocks_;
  PythonRef tuple_;
};

}  // namespace pike::gpu
