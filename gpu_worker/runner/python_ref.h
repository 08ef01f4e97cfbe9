#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>

namespace pike::gpu {

struct PythonRelease {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};

// Owns one reference. Needs the interpreter's lock to be destroyed.
using PythonRef = std::unique_ptr<PyObject, PythonRelease>;

// Python's functions as they were before the candidate was loaded.
struct PythonHooks {
  PythonRef tensor_type;   // torch.Tensor
  PythonRef to_dlpack;     // torch._C._to_dlpack
  PythonRef from_dlpack;   // torch._C._from_dlpack
  PythonRef require_grad;  // torch.Tensor.requires_grad_
  PythonRef resolve;       // (tensor) -> tensor without conjugate and negative bits
  PythonRef seed_all;      // (int) -> None
  PythonRef reset;         // () -> None: gradients off; on a GPU torch's default device and stream
  PythonRef describe_error;  // (exception) -> (type name, text, kind)
  // On a GPU. (type code, bits, dims, strides) -> (tensor in new memory, the same memory as bytes,
  // its address); and (bytes, bytes) -> bool, whether both are equal, wherever they lie.
  PythonRef allocate;
  PythonRef is_equal;
};

}  // namespace pike::gpu
