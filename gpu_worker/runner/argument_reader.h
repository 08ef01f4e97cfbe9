#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/exchange_mapping.h"
#include "gpu_worker/runner/input_mapping.h"
#include "gpu_worker/runner/python_ref.h"
#include "gpu_worker/runner/runner_gpu.h"

namespace pike::gpu {

// The arguments of one call as Python objects over private memory: a candidate that keeps its input
// never sees the next one there. Needs the interpreter's lock throughout.
class CallArguments {
 public:
  // On a GPU: inputs come from `buffer`. `hooks`, `buffer` and `gpu` must outlive the object.
  CallArguments(const PythonHooks& hooks, const ExchangeMapping& buffer, RunnerGpu& gpu)
      : hooks_(hooks), buffer_(&buffer), gpu_(&gpu) {}
  // On device cpu: they are in `inputs`, a mapping of the descriptor `fd`, which must outlive the
  // object as `hooks` must.
  CallArguments(const PythonHooks& hooks, InputMappingRef inputs, int fd)
      : hooks_(hooks), inputs_(std::move(inputs)), fd_(fd) {}

  // Makes them as `call` describes; on a GPU copies are only queued. False with a Python exception
  // set, for instance for want of memory.
  bool Read(const CallRecord& call);

  // A tuple.
  PyObject* tuple() const { return tuple_.get(); }

  // Whether the private memory still holds what the judge wrote. Leaves no exception pending.
  bool IsUnchanged() const;

 private:
  // The memory of a tensor on the GPU, as a flat tensor of bytes.
  struct DeviceBytes {
    PythonRef flat;
    uint64_t buffer_offset = 0;
    std::size_t size = 0;
  };

  PyObject* ReadValue();
  PyObject* ReadTensor();
  PyObject* ReadHostTensor(const TensorSpec& spec);
  PyObject* ReadDeviceTensor(const TensorSpec& spec);
  PyObject* ReadSequence(char end);
  PyObject* ReadDict();
  // The digits up to `end`.
  std::string_view TakeUntil(char end);
  bool IsSameInBuffer(const DeviceBytes& bytes) const;

  const PythonHooks& hooks_;
  const ExchangeMapping* const buffer_ = nullptr;
  RunnerGpu* const gpu_ = nullptr;
  const InputMappingRef inputs_;
  const int fd_ = -1;
  const CallRecord* call_ = nullptr;  // while Read runs
  std::string_view rest_;
  std::size_t tensors_read_ = 0;
  std::vector<DeviceBytes> device_bytes_;
  PythonRef tuple_;
};

}  // namespace pike::gpu
