#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/python_ref.h"

namespace pike::gpu {

struct OutputBuffer {
  uint8_t* bytes = nullptr;
  std::size_t size = 0;
};

// Describes the outputs of a call in `reply` and copies their bytes to `buffer`. Sets the status
// kOk, kUnsupported or kTooLarge and the text. Leaves no Python exception pending. No method of an
// output is called except by the hooks.
void WriteOutputs(PyObject* outputs, const PythonHooks& hooks, const OutputBuffer& buffer,
                  CallRecord& reply);

// Puts `text`, cut to what fits, into the record.
void SetText(const std::string& text, CallRecord& record);

}  // namespace pike::gpu
