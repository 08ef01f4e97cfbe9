#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "gpu_worker/core/floor.h"
#include "gpu_worker/core/precision.h"
#include "pike/v1/measurement.pb.h"
#include "pike/v1/types.pb.h"

namespace pike::gpu {

// What a judge found out about its task under one set of tolerances.
struct CheckedTask {
  v1::TaskReport report;
  ReferencePrecision precision;
  NeededBytes needed;
};

// Reads a frame `task_checked`, cut and escaped.
CheckedTask CheckedTaskOf(const nlohmann::json& frame);

// The policy's tolerances as fields of a request.
nlohmann::json TolerancesOf(const v1::Policy& policy);

// The same for one report, as a key.
std::string ToleranceKey(const v1::Policy& policy);

}  // namespace pike::gpu
