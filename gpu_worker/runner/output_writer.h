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
// compute in it; what follows only describes or copies bytes. The tensors live as long as this.
// Leaves no Python exception pending. Needs the interpreter's lock.
class CallOutputs {
 public:
  explicit CallOutputs(const PythonHooks& hooks) : hooks_(hooks) {}

  // Takes hold of every tensor in `outputs`. No method of an output is called except by the hooks.
  void Collect(PyObject* outputs);

  // Device cpu: brings tensors with large gaps in their memory together, so that the judge need not
  // read the gaps. Belongs inside the clock, too.
  void CloseGaps();

  // Device cpu: describes in `reply` where the outputs lie. Sets the status kOk, kUnsupported or
  // kTooLarge (for more than `bytes_max` bytes) and the text.
  void Describe(std::size_t bytes_max, CallRecord& reply);

  // On a GPU: the same, and queues copies of their bytes to `buffer`. Returns an empty text or what
  // the driver said.
  std::string Write(const ExchangeMapping& buffer, RunnerGpu& gpu, CallRecord& reply);

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
    std::vector<uint8_t> packed;  // of CloseGaps
  };

  void Finish(CallRecord& reply);

  const PythonHooks& hooks_;
  std::vector<Export> exports_;
  CallStatus status_ = CallStatus::kOk;
  std::string text_;
  std::string failure_;
};

// Puts `text`, cut to what fits, into the record.
void SetText(const std::string& text, CallRecord& record);

}  // namespace pike::gpu
