#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/exchange_mapping.h"
#include "gpu_worker/runner/python_ref.h"
#include "gpu_worker/runner/runner_gpu.h"

namespace pike::gpu {

struct PrivateBlock;
struct PrivateBlockRelease {
  void operator()(PrivateBlock* block) const;
};

// The arguments of one call as Python objects over private memory: a candidate that keeps its input
// never sees the next one there. Needs the interpreter's lock throughout; what the constructor gets
// must outlive the object. `gpu` is null on device cpu.
class CallArguments {
 public:
  CallArguments(const CallRecord& call, const ExchangeMapping& buffer, const PythonHooks& hooks,
                RunnerGpu* gpu)
      : call_(call), buffer_(buffer), hooks_(hooks), gpu_(gpu) {}

  // Copies the tensors of the call from the input buffer; on a GPU the copies are only queued.
  // False with a Python exception set, for instance for want of memory.
  bool Read();

  // A tuple.
  PyObject* tuple() const { return tuple_.get(); }

  // Whether the private memory still holds what the input buffer holds. Leaves no exception
  // pending.
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

  const CallRecord& call_;
  const ExchangeMapping& buffer_;
  const PythonHooks& hooks_;
  RunnerGpu* const gpu_;
  std::string_view rest_;
  std::size_t tensors_read_ = 0;
  std::vector<std::unique_ptr<PrivateBlock, PrivateBlockRelease>> blocks_;
  std::vector<DeviceBytes> device_bytes_;
  PythonRef tuple_;
};

}  // namespace pike::gpu
