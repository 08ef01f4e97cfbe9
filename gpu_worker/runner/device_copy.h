#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "gpu_worker/runner/cuda_driver.h"
#include "gpu_worker/runner/packed_copy.h"

namespace pike::gpu {

// From the first to behind the last byte of a tensor; nothing if a stride or size is negative or
// the span overflows.
std::optional<std::size_t> FindSpanBytes(const StridedLayout& layout);

// How the bytes of a tensor in a GPU's memory get into a buffer. The driver has no copy of
// arbitrary strides and torch is not to be relied on after the clock has stopped, so: dense tensors
// in any order of dimensions are copied as they lie and keep their strides; others are packed row
// by row, unless that takes so many pieces that their whole span is the better choice.
enum class CopyKind { kSpan, kRows, kTooLarge, kTooManyPieces };
struct CopyPlan {
  CopyKind kind = CopyKind::kSpan;
  std::size_t bytes = 0;  // in the buffer
};
CopyPlan PlanCopy(const StridedLayout& layout, std::size_t room_bytes);

// Where the first byte goes: an address of the GPU, or memory of this process.
struct CopyTarget {
  CuAddress device = 0;
  uint8_t* host = nullptr;
};

// Queues copies of rows on the legacy default stream, so that the tensor is packed at `target`.
CuResult CopyRows(const CudaDriver& driver, const CopyTarget& target, CuAddress source,
                  const StridedLayout& layout);

// Queues one copy.
CuResult CopySpan(const CudaDriver& driver, const CopyTarget& target, CuAddress source,
                  std::size_t bytes);

}  // namespace pike::gpu
