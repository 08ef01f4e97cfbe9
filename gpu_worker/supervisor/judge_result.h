#pragma once

#include <nlohmann/json.hpp>

#include "gpu_worker/core/observation.h"
#include "pike/v1/types.pb.h"

namespace pike::gpu {

// A judge's `result` frame in our terms. `phase` is the operation it answers. Process facts are
// left empty. An outcome that is not in the protocol is kEnvironment.
Observation ObservationOfResult(const nlohmann::json& result, Phase phase);

// Its `correctness`, bounded.
v1::Correctness CorrectnessOfResult(const nlohmann::json& result);

// Statistics of the samples.
v1::Measurement MeasurementOf(const Samples& all, bool is_cuda);

}  // namespace pike::gpu
