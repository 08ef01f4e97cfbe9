#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// Element types that can cross between judge and runner.
enum class ElementType : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};

// The type by DLPack's code and bits; nothing if it is not one of ours.
std::optional<ElementType> FindElementType(uint8_t type_code, uint8_t bits);

// As torch names it, without its prefix.
std::string_view ElementTypeName(ElementType type);

std::size_t ElementBytes(ElementType type);

// Number of elements; nothing if a size is negative or the product exceeds 2^40.
std::optional<uint64_t> CountElements(const TensorSpec& spec);

// Bytes of a tensor packed without gaps; nothing if its type or sizes are not acceptable.
std::optional<uint64_t> PackedBytes(const TensorSpec& spec);

}  // namespace pike::gpu
