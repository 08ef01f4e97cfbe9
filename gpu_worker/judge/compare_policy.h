#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu_worker/judge/compare.h"

namespace pike::gpu {

// Instead of the general one, for outputs of one dtype as torch names it.
struct DtypeTolerance {
  std::string dtype;
  Tolerance tolerance;
};

// Outputs that are off by at most `error_max`, as RelativeError measures it, are as good as those
// computed in the precision of this name.
struct PrecisionClass {
  std::string name;
  double error_max = 0;
};

// What outputs are measured by.
struct ComparePolicy {
  Tolerance tolerance;
  std::vector<DtypeTolerance> by_dtype;
  std::vector<PrecisionClass> classes;  // finest first
  // Each floating output must belong to this class at least; empty: to none.
  PrecisionClass least;
};

const Tolerance& ToleranceOf(const ComparePolicy& policy, std::string_view dtype);

// The finest class that `error` belongs to: "exact" for none at all, "tolerance" for no class.
std::string_view FindPrecisionClass(const ComparePolicy& policy, double error, bool is_exact);

}  // namespace pike::gpu
