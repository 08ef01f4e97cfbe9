#include "gpu_worker/runner/packed_copy.h"

#include <cstring>
#include <limits>

namespace pike::gpu {
namespace {

// The trailing dimensions of `layout` that are packed already: how many there are before them, and
// the bytes of one such block.
struct PackedTail {
  std::size_t outer_dims = 0;
  std::size_t block_bytes = 0;
};

PackedTail FindPackedTail(const StridedLayout& layout) {
  PackedTail tail = {layout.dim_count, layout.element_bytes};
  int64_t packed_stride = 1;
  while (tail.outer_dims > 0) {
    const std::size_t i = tail.outer_dims - 1;
    if (layout.dims[i] != 1 && layout.strides != nullptr && layout.strides[i] != packed_stride)
      break;
    packed_stride *= layout.dims[i];
    tail.block_bytes *= static_cast<std::size_t>(layout.dims[i]);
    --tail.outer_dims;
  }
  return tail;
}

template <typename Element>
void CopyRow(uint8_t* packed, const uint8_t* source, int64_t count, int64_t stride_bytes) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(packed + static_cast<std::size_t>(i) * sizeof(Element), source + i * stride_bytes,
                sizeof(Element));
}

struct Copier {
  const StridedLayout& layout;
  const PackedTail& tail;

  // Copies dimension `dim` and all after it; returns the end of what was written.
  uint8_t* Copy(uint8_t* packed, const uint8_t* source, std::size_t dim) const {
    if (dim == tail.outer_dims) {
      std::memcpy(packed, source, tail.block_bytes);
      return packed + tail.block_bytes;
    }
    const int64_t count = layout.dims[dim];
    const int64_t stride_bytes = layout.strides[dim] * static_cast<int64_t>(layout.element_bytes);
    if (dim + 1 == tail.outer_dims && CopyInnermost(packed, source, count, stride_bytes))
      return packed + static_cast<std::size_t>(count) * tail.block_bytes;
    for (int64_t i = 0; i < count; ++i)
      packed = Copy(packed, source + i * stride_bytes, dim + 1);
    return packed;
  }

  // A row of blocks of a common size without a call per block; false for other sizes.
  bool CopyInnermost(uint8_t* packed, const uint8_t* source, int64_t count,
                     int64_t stride_bytes) const {
    switch (tail.block_bytes) {
      case 1:
        CopyRow<uint8_t>(packed, source, count, stride_bytes);
        return true;
      case 2:
        CopyRow<uint16_t>(packed, source, count, stride_bytes);
        return true;
      case 4:
        CopyRow<uint32_t>(packed, source, count, stride_bytes);
        return true;
      case 8:
        CopyRow<uint64_t>(packed, source, count, stride_bytes);
        return true;
      default:
        return false;
    }
  }
};

}  // namespace

std::optional<std::size_t> FindPackedBytes(const StridedLayout& layout) {
  std::size_t bytes = layout.element_bytes;
  bool is_empty = false;
  for (std::size_t i = 0; i < layout.dim_count; ++i) {
    const int64_t dim = layout.dims[i];
    if (dim < 0)
      return std::nullopt;
    if (dim == 0) {
      is_empty = true;
      continue;
    }
    constexpr std::size_t kBytesMax = std::numeric_limits<std::size_t>::max() / 4;
    if (bytes > kBytesMax / static_cast<std::size_t>(dim))
      return std::nullopt;
    bytes *= static_cast<std::size_t>(dim);
  }
  return is_empty ? 0 : bytes;
}

void CopyPacked(uint8_t* packed, const uint8_t* source, const StridedLayout& layout) {
  const std::optional<std::size_t> bytes = FindPackedBytes(layout);
  if (!bytes || *bytes == 0)
    return;
  const PackedTail tail = FindPackedTail(layout);
  Copier{layout, tail}.Copy(packed, source, /*dim=*/0);
}

}  // namespace pike::gpu
