#include "gpu_worker/supervisor/jit_source.h"

#include <absl/strings/match.h>

namespace pike::gpu {

bool LooksCompiledAtRunTime(absl::string_view source) {
  return absl::StrContains(source, "triton") || absl::StrContains(source, "torch.compile") ||
         absl::StrContains(source, "torch._dynamo");
}

bool MayHoldTimedChoice(absl::string_view name, absl::string_view source) {
  if (absl::EndsWith(name, ".best_config") || absl::EndsWith(name, ".autotune.json"))
    return true;
  const bool has_autotuned_graphs = absl::StrContains(source, "max-autotune") ||
                                    absl::StrContains(source, "max_autotune") ||
                                    absl::StrContains(source, "coordinate_descent");
  return has_autotuned_graphs &&
         (name == "fxgraph" || name == "aotautograd" || name == "cache" || name == "local_cache");
}

}  // namespace pike::gpu
