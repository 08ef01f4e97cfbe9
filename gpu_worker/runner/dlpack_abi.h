#pragma once

#include <cstdint>

// The parts of DLPack's stable, unversioned C layout that the harness needs, so that one build of
// it serves every version of PyTorch.
namespace pike::gpu {

inline constexpr int32_t kDlpackCpu = 1;
inline constexpr int32_t kDlpackCuda = 2;
inline constexpr char kDlpackCapsule[] = "dltensor";

struct DlpackDevice {
  int32_t type;
  int32_t id;
};

struct DlpackElement {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DlpackTensor {
  void* bytes;
  DlpackDevice device;
  int32_t dim_count;
  DlpackElement element;
  int64_t* shape;
  int64_t* strides;  // in elements; null means packed
  uint64_t byte_offset;
};

struct DlpackManagedTensor {
  DlpackTensor tensor;
  void* owner;
  void (*deleter)(DlpackManagedTensor* self);
};

}  // namespace pike::gpu
