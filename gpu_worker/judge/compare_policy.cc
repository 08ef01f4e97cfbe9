#include "gpu_worker/judge/compare_policy.h"

namespace pike::gpu {

const Tolerance& ToleranceOf(const ComparePolicy& policy, std::string_view dtype) {
  for (const DtypeTolerance& row : policy.by_dtype) {
    if (row.dtype == dtype)
      return row.tolerance;
  }
  return policy.tolerance;
}

std::string_view FindPrecisionClass(const ComparePolicy& policy, double error, bool is_exact) {
  if (is_exact)
    return "exact";
  for (const PrecisionClass& row : policy.classes) {
    if (error <= row.error_max)
      return row.name;
  }
  return "tolerance";
}

}  // namespace pike::gpu
