#include "gpu_worker/supervisor/jit_source.h"

#include "tests/testing/catch.h"

namespace pike::gpu {

TEST_CASE("LooksCompiledAtRunTime: by its text") {
  CHECK(LooksCompiledAtRunTime("import triton"));
  CHECK(LooksCompiledAtRunTime("self.f = torch.compile(f)"));
  CHECK_FALSE(LooksCompiledAtRunTime("import torch"));
}

TEST_CASE("MayHoldTimedChoice: what was tuned beside others is not handed on") {
  CHECK(MayHoldTimedChoice("abc.best_config", ""));
  CHECK_FALSE(MayHoldTimedChoice("fxgraph", "torch.compile(f)"));
  CHECK(MayHoldTimedChoice("fxgraph", "torch.compile(f, mode='max-autotune')"));
  CHECK_FALSE(MayHoldTimedChoice("kernel.cubin", "torch.compile(f, mode='max-autotune')"));
}

}  // namespace pike::gpu
