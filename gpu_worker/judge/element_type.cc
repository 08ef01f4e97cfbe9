#include "gpu_worker/judge/element_type.h"

#include <iterator>

namespace pike::gpu {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 40;

struct TypeRow {
  uint8_t type_code;
  uint8_t bits;
  std::string_view name;
};

// In the order of ElementType.
constexpr TypeRow kTypes[] = {
    {6, 8, "bool"},     {0, 8, "int8"},       {0, 16, "int16"},       {0, 32, "int32"},
    {0, 64, "int64"},   {1, 8, "uint8"},      {1, 16, "uint16"},      {1, 32, "uint32"},
    {1, 64, "uint64"},  {2, 16, "float16"},   {4, 16, "bfloat16"},    {2, 32, "float32"},
    {2, 64, "float64"}, {5, 64, "complex64"}, {5, 128, "complex128"},
};
static_assert(std::size(kTypes) == static_cast<std::size_t>(ElementType::kComplex128) + 1);

const TypeRow& Row(ElementType type) {
  return kTypes[static_cast<std::size_t>(type)];
}

}  // namespace

std::optional<ElementType> FindElementType(uint8_t type_code, uint8_t bits) {
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].type_code == type_code && kTypes[i].bits == bits)
      return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

std::string_view ElementTypeName(ElementType type) {
  return Row(type).name;
}

std::size_t ElementBytes(ElementType type) {
  return Row(type).bits / 8u;
}

std::optional<uint64_t> CountElements(const TensorSpec& spec) {
  if (spec.dim_count > kDimsMax)
    return std::nullopt;
  uint64_t elements = 1;
  bool is_empty = false;
  for (std::size_t i = 0; i < spec.dim_count; ++i) {
    const int64_t dim = spec.dims[i];
    if (dim < 0 || static_cast<uint64_t>(dim) > kElementsMax)
      return std::nullopt;
    if (dim == 0) {
      is_empty = true;
      continue;
    }
    if (elements > kElementsMax / static_cast<uint64_t>(dim))
      return std::nullopt;
    elements *= static_cast<uint64_t>(dim);
  }
  return is_empty ? 0 : elements;
}

std::optional<uint64_t> PackedBytes(const TensorSpec& spec) {
  const std::optional<ElementType> type = FindElementType(spec.type_code, spec.bits);
  const std::optional<uint64_t> elements = CountElements(spec);
  if (!type || !elements)
    return std::nullopt;
  return *elements * ElementBytes(*type);
}

}  // namespace pike::gpu
