#pragma once

#include "cli/client/service_client.h"
#include "cli/eval/plan.h"
#include "cli/exit_code.h"

namespace pike::cli {

// Carries out `plan`: registers, submits, watches, prints. Blocks until everything ended, the user
// interrupts or the service stays away.
ExitCode RunPlan(const EvalPlan& plan, const EvalOptions& options, ServiceClient* client);

}  // namespace pike::cli
