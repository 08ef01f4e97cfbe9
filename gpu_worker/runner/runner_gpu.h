#pragma once

#include <cstdint>
#include <string>

#include "gpu_worker/runner/cuda_driver.h"

namespace pike::gpu {

// The GPU as the harness of one runner uses it: the primary context, which is torch's too, and the
// clock. One GPU is visible, as device 0. Functions return an empty text or what the driver said.
// Not thread-safe. Nothing is freed: a runner is used once.
class RunnerGpu {
 public:
  // `driver` must be loaded.
  explicit RunnerGpu(const CudaDriver& driver) : driver_(driver) {}

  // Starts the context and takes the memory that flushes the L2 cache, once.
  std::string Start();

  // Makes the primary context current again, whatever a candidate left behind.
  std::string Activate();

  // Waits until all of the context's work is done.
  std::string Synchronise();

  // Queues a flush of the L2 cache and behind it the start of the clock.
  std::string StartClock();

  // Waits until all of the context's work is done, in any stream, and stops the clock.
  std::string StopClock(uint64_t& claim_ns);

  const CudaDriver& driver() const { return driver_; }
  // Whether the last error was want of memory.
  bool is_out_of_memory() const { return is_out_of_memory_; }

  // The text of an error, empty for success.
  std::string Explain(CuResult result);

 private:
  const CudaDriver driver_;
  bool is_started_ = false;
  bool is_out_of_memory_ = false;
  CuContext context_ = nullptr;
  CuAddress flush_ = 0;
  CuEvent start_ = nullptr;
  CuEvent end_ = nullptr;
};

}  // namespace pike::gpu
