#pragma once

#include <memory>

#include <absl/status/statusor.h>

#include "common/device/gpu.h"

namespace pike::device {

// NVIDIA's management library, loaded now: nothing of it is needed to build or to start us.
// NotFound: there is no driver here.
absl::StatusOr<std::unique_ptr<GpuMonitor>> OpenNvml();

}  // namespace pike::device
