#pragma once

#include <Python.h>

#include <memory>

namespace pike::gpu {

struct PythonRelease {
  void operator()(PyObject* object) const { Py_XDECREF(object); }
};

// Owns one reference. Needs the interpreter's lock to be destroyed.
using PythonRef = std::unique_ptr<PyObject, PythonRelease>;

}  // namespace pike::gpu
