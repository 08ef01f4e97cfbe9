#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/exchange_mapping.h"
#include "gpu_worker/runner/python_ref.h"
#include "gpu_worker/runner/runner_gpu.h"

namespace pike::gpu {

// The outputs of one call. Collect belongs inside the runner's clock, since a lazy output may
// compute in it; Write only copies bytes. Leaves no Python exception pending. Needs the
// interpreter's lock.
class CallOutputs {
 public:
  explicit CallOutputs(const PythonHooks& hooks) : hooks_(hooks) {}

  // Takes hold of every tensor in `outputs`. No method of an output is called except by the hooks.
  void Collect(PyObject* outputs);

  // Describes the outputs in `reply` and copies their bytes to `buffer`. Sets the status kOk,
  // kUnsupported or kTooLarge and the text. On a GPU (`gpu` is null on device cpu) copies are only
  // queued and the tensors are kept; returns an empty text or what the driver said.
  std::string Write(const ExchangeMapping& buffer, RunnerGpu* gpu, CallRecord& reply);

 private:
  bool CollectValue(PyObject* object, const std::string& path, int depth);
  bool CollectTensor(PyObject* object, const std::string& path);
  bool CollectSequence(PyObject* object, const std::string& path, int depth);
  bool CollectDict(PyObject* object, const std::string& path, int depth);
  bool CollectScalar(PyObject* object, const std::string& path);
  bool Fail(CallStatus status, const std::string& path, const std::string& why);

  struct Export {
    PythonRef capsule;  // DLPack's; frees the tensor
    std::string path;
  };

  const PythonHooks& hooks_;
  std::vector<Export> exports_;
  CallStatus status_ = CallStatus::kOk;
  std::string text_;
  std::string failure_;
};

// Puts `text`, cut to what fits, into the record.
void SetText(const std::string& text, CallRecord& record);

}  // namespace pike::gpu
