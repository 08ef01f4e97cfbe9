#include "cli/exit_code.h"

namespace pike::cli {

ExitCode ExitCodeOf(const EvalCounts& counts) {
  if (counts.is_interrupted)
    return ExitCode::kInterrupted;
  if (counts.unfinished > 0)
    return ExitCode::kUnreachable;
  if (counts.is_all_invalid())
    return ExitCode::kUsage;
  if (counts.infra_error > 0 || counts.refused > 0)
    return ExitCode::kInfra;
  if (counts.not_valid > 0 || counts.cancelled > 0)
    return ExitCode::kFailure;
  return ExitCode::kOk;
}

}  // namespace pike::cli
