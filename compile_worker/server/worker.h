#pragma once

#include <stop_token>

#include <absl/status/status.h>

#include "common/service/stop_signal.h"
#include "compile_worker/server/options.h"

namespace pike::compile_worker {

// Runs a compile worker until it is told to stop, its coordinator drains it, or it is refused.
// A stop hands running leases back, so that another worker can start them at once.
// FailedPrecondition: this machine or the coordinator does not let it work; the message says why.
absl::Status RunWorker(const Options& options, service::StopSignal* stop);

}  // namespace pike::compile_worker
