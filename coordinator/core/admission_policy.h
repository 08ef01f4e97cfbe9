#pragma once

#include <optional>
#include <string>

#include "coordinator/core/evaluation_table.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/placement_policy.h"
#include "coordinator/core/types.h"

// Whether work is taken at all. Stateless.
namespace pike::coordinator {

// Why neither a worker of the last ten minutes nor a configured class could do work with `demand`,
// in one line; empty if one could.
std::optional<std::string> WhyImpossible(const Demand& demand, const Workers& workers,
                                         const CoreOptions& options);

// Which bound leaves no room for one more evaluation of `principal`, in one line; empty if none.
std::optional<std::string> WhyFull(const Principal& principal, const EvaluationTable& evaluations,
                                   const CoreOptions& options);

}  // namespace pike::coordinator
