#include "gpu_worker/judge/python_policy.h"

#include <functional>

namespace pike::gpu {
namespace {

// Rows of a name and as many numbers as `read` wants. False with a Python exception set.
bool ReadRows(PyObject* rows, const char* form, const std::function<bool(PyObject*)>& read) {
  const PythonRef list(PySequence_Fast(rows, form));
  if (!list)
    return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    if (!read(PySequence_Fast_GET_ITEM(list.get(), i)))
      return false;
  }
  return true;
}

}  // namespace

bool ReadComparePolicy(PyObject* tolerances, PyObject* classes, ComparePolicy& policy) {
  return ReadRows(tolerances, "rows of (dtype, atol, rtol)",
                  [&policy](PyObject* row) {
                    const char* dtype = nullptr;
                    Tolerance tolerance;
                    if (PyArg_ParseTuple(row, "sdd", &dtype, &tolerance.atol, &tolerance.rtol) == 0)
                      return false;
                    policy.by_dtype.push_back({dtype, tolerance});
                    return true;
                  }) &&
         ReadRows(classes, "rows of (name, error_max)", [&policy](PyObject* row) {
           const char* name = nullptr;
           double error_max = 0;
           if (PyArg_ParseTuple(row, "sd", &name, &error_max) == 0)
             return false;
           policy.classes.push_back({name, error_max});
           return true;
         });
}

}  // namespace pike::gpu
