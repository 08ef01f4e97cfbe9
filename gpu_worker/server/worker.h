#pragma once

#include <absl/status/status.h>

#include "common/service/stop_signal.h"
#include "gpu_worker/server/options.h"

namespace pike::gpu {

// Runs a GPU worker until it is told to stop, its coordinator drains it, or it is refused. After a
// stop, evaluations that do not end within the drain time go back to the coordinator.
// FailedPrecondition: this machine or the coordinator does not let it work; the message says why.
absl::Status RunWorker(const Options& options, service::StopSignal* stop);

}  // namespace pike::gpu
