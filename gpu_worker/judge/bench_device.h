#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gpu_worker/judge/call_transport.h"
#include "gpu_worker/judge/compare.h"
#include "gpu_worker/judge/task_source.h"
#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// What is told about a device; see PROTOCOL.md, `task_ready`.
struct DeviceFacts {
  std::string kind;
  std::string name;
  uint64_t memory_total_bytes = 0;
  uint64_t memory_free_bytes = 0;
  double sentinel_us = 0;
  double bytes_per_s = 0;  // the memory's peak by its clock and width; 0: not known
  std::string why_memfd;   // why buffers are host memory although it is a GPU; empty: they are not
};

// Private memory of the device.
class PrivateBuffer {
 public:
  virtual ~PrivateBuffer() = default;
  virtual uint8_t* bytes() const = 0;  // an address of the device
  virtual std::size_t size() const = 0;
};

// A tensor of a bench: its description and its first byte.
struct PlacedTensor {
  const TensorSpec* spec = nullptr;
  const void* bytes = nullptr;
};

// One look of Settle.
struct SentinelLook {
  double sentinel_us = 0;
  double baseline_us = 0;
  uint64_t memory_free_bytes = 0;
  bool is_baseline = false;  // the sentinel took what it takes on an idle device
};

// The device that a bench runs on: its memory, and arithmetic there. Failures are the device's
// (kind `device` or `memory`) unless said otherwise. Not thread-safe.
class BenchDevice {
 public:
  virtual ~BenchDevice() = default;

  // kHostTensor or kCudaTensor: where inputs and reference live.
  virtual uint32_t tensor_type() const = 0;
  virtual DeviceFacts Facts() = 0;

  // For one runner. The device must outlive it.
  virtual std::unique_ptr<CallTransport> NewTransport() = 0;

  // Makes of an input what runners get, where that can be done ahead.
  virtual std::optional<TaskFailure> Share(TaskValue& input) = 0;

  virtual std::optional<TaskFailure> NewPrivate(std::size_t bytes,
                                                std::unique_ptr<PrivateBuffer>& buffer) = 0;

  // Waits for all that is queued.
  virtual std::optional<TaskFailure> Finish() = 0;

  // Compares two tensors of one dtype and shape; `expected` is packed. On the host `actual` is too.
  virtual std::optional<TaskFailure> Compare(const PlacedTensor& expected,
                                             const PlacedTensor& actual, const Tolerance& tolerance,
                                             TensorError& error) = 0;

  // Runs the sentinel once and waits for it.
  virtual std::optional<TaskFailure> LookAtSentinel(SentinelLook& look) = 0;
};

// Host memory.
std::unique_ptr<BenchDevice> NewHostDevice();
std::unique_ptr<PrivateBuffer> NewHostBuffer(std::size_t bytes);

}  // namespace pike::gpu
