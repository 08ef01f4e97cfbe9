#pragma once

#include "gpu_worker/judge/compare_policy.h"
#include "gpu_worker/judge/python_object.h"

namespace pike::gpu {

// Fills `by_dtype` from a sequence of (dtype, atol, rtol) and `classes` from one of (name,
// error_max). False with a Python exception set.
bool ReadComparePolicy(PyObject* tolerances, PyObject* classes, ComparePolicy& policy);

}  // namespace pike::gpu
