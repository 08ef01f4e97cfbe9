#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "gpu_worker/judge/task_source.h"

namespace pike::gpu {

struct PythonRelease {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};
using PythonRef = std::unique_ptr<PyObject, PythonRelease>;

// What judge_main.py hands over. All are callables.
struct TaskCallables {
  PythonRef get_inputs;      // () -> list or tuple
  PythonRef make_reference;  // () -> callable, freshly constructed under the weight seed
  PythonRef seed_all;        // (int) -> None
  PythonRef describe_error;  // (exception) -> (type name, text, kind)
};

// The task's Python code in this process, its tensors read through libtorch. Needs the
// interpreter's lock in every function; calls into Python run without gradients, except get_inputs.
std::unique_ptr<TaskSource> MakePythonTask(TaskCallables callables);

// Takes the pending Python exception as a failure at `where`.
TaskFailure TakePythonError(PyObject* describe_error, const char* where);

}  // namespace pike::gpu
