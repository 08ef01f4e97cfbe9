#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/python_object.h"
#include "gpu_worker/judge/task_source.h"

namespace pike::gpu {

// What judge_main.py hands over. All are callables.
struct TaskCallables {
  PythonRef get_inputs;      // () -> list or tuple
  PythonRef make_reference;  // () -> callable, freshly constructed under the weight seed
  PythonRef seed_all;        // (int) -> None
  PythonRef describe_error;  // (exception) -> (type name, text, kind)
};

// The task's Python code in this process, its tensors read through libtorch. Needs the
// interpreter's lock in every function; calls into Python run without gradients, except get_inputs.
// The device must outlive it.
std::unique_ptr<TaskSource> MakePythonTask(TaskCallables callables, BenchDevice& device);

// Takes the pending Python exception as a failure at `where`.
TaskFailure TakePythonError(PyObject* describe_error, const char* where);

}  // namespace pike::gpu
