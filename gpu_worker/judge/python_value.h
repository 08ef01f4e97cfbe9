#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/compare.h"
#include "gpu_worker/judge/python_object.h"
#include "gpu_worker/judge/task_source.h"

namespace pike::gpu {

// Inputs keep a dense layout, since a candidate may be as sensitive to it as the reference; outputs
// are packed.
enum class ValueLayout { kDense, kPacked };

// A value with the tensors whose memory it describes.
struct HeldValue {
  TaskValue value;
  std::vector<at::Tensor> tensors;
};

// Reads a Python value; tensors that are elsewhere are moved to the memory of `device`. False:
// `error` says what cannot cross. Throws c10::Error, for instance for want of memory.
bool ReadPythonValue(PyObject* object, const BenchDevice& device, ValueLayout layout,
                     HeldValue& held, std::string& error);

// Makes the arguments for the reference as a runner makes them from a call record: plain
// containers, plain tensors, and no tensor that shares its memory with another (a shared one is
// replaced by a copy). `held` is what ReadPythonValue made of `object`. Null with a Python
// exception set; throws as above.
PyObject* BuildArguments(PyObject* object, HeldValue& held);

// Elements of `actual` that are out of tolerance, of Python tensors of one dtype, shape and device.
// Nothing: `error` says why they cannot be compared.
std::optional<uint64_t> CountWrongElements(PyObject* expected, PyObject* actual,
                                           const Tolerance& tolerance, std::string& error);

// Compares two Python tensors of one dtype, shape and device: by CompareElements on packed copies
// in host memory, and by CompareTensors where they are. For tests that both agree; throws as above.
std::pair<TensorError, TensorError> CompareBothWays(PyObject* expected, PyObject* actual,
                                                    const Tolerance& tolerance);

}  // namespace pike::gpu
