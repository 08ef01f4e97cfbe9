#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace pike::gpu {

// Sizes and strides (in elements) of a tensor in memory.
struct StridedLayout {
  std::size_t dim_count = 0;
  const int64_t* dims = nullptr;
  const int64_t* strides = nullptr;  // null means packed
  std::size_t element_bytes = 1;
};

// Bytes of the packed tensor; nothing if a size is negative or the product overflows.
std::optional<std::size_t> FindPackedBytes(const StridedLayout& layout);

// Copies a tensor of any strides, zero and negative ones included, to packed memory.
void CopyPacked(uint8_t* packed, const uint8_t* source, const StridedLayout& layout);

}  // namespace pike::gpu
