#include "gpu_worker/runner/device_copy.h"

#include <limits>
#include <vector>

namespace pike::gpu {
namespace {

constexpr std::size_t kPiecesCheap = 1024;   // beyond them a whole span is preferred if it fits
constexpr std::size_t kPiecesMax = 1 << 16;  // about half a second of copies
constexpr std::size_t kPitchMax = (std::size_t{1} << 31) - 1;

struct Dimension {
  std::size_t count = 0;
  std::size_t stride_bytes = 0;
};

// A tensor as blocks of consecutive bytes: dimensions of one element are dropped and those that
// follow each other in memory are merged.
struct Blocks {
  std::vector<Dimension> outer;
  std::size_t block_bytes = 0;

  // The last dimension as rows of one two-dimensional copy.
  bool has_rows() const {
    return !outer.empty() && outer.back().stride_bytes >= block_bytes &&
           outer.back().stride_bytes <= kPitchMax;
  }
  // Copies that are needed; saturated.
  std::size_t CountPieces() const {
    std::size_t pieces = 1;
    const std::size_t looped = outer.size() - (has_rows() ? 1 : 0);
    for (std::size_t i = 0; i < looped && pieces <= kPiecesMax; ++i)
      pieces *= outer[i].count;
    return pieces;
  }
};

Blocks FindBlocks(const StridedLayout& layout) {
  Blocks blocks;
  std::size_t packed_stride = layout.element_bytes;
  std::vector<Dimension> dims;
  for (std::size_t i = layout.dim_count; i > 0; --i) {
    const std::size_t count = static_cast<std::size_t>(layout.dims[i - 1]);
    const std::size_t stride =
        layout.strides == nullptr
            ? packed_stride
            : static_cast<std::size_t>(layout.strides[i - 1]) * layout.element_bytes;
    packed_stride *= count;
    if (count != 1)
      dims.insert(dims.begin(), {count, stride});
  }
  blocks.block_bytes = layout.element_bytes;
  while (!dims.empty() && dims.back().stride_bytes == blocks.block_bytes) {
    blocks.block_bytes *= dims.back().count;
    dims.pop_back();
  }
  for (const Dimension& dim : dims) {
    if (!blocks.outer.empty() && blocks.outer.back().stride_bytes == dim.count * dim.stride_bytes) {
      blocks.outer.back().count *= dim.count;
      blocks.outer.back().stride_bytes = dim.stride_bytes;
    } else {
      blocks.outer.push_back(dim);
    }
  }
  return blocks;
}

// Copies blocks to consecutive bytes of the target.
class RowCopier {
 public:
  RowCopier(const CudaDriver& driver, const CopyTarget& target, const Blocks& blocks)
      : driver_(driver), target_(target), blocks_(blocks) {}

  CuResult Copy(CuAddress source, std::size_t dim) {
    const bool is_last = dim + 1 == blocks_.outer.size();
    if (dim == blocks_.outer.size() || (is_last && blocks_.has_rows()))
      return CopyPiece(source, is_last);
    for (std::size_t i = 0; i < blocks_.outer[dim].count; ++i) {
      const CuResult result = Copy(source + i * blocks_.outer[dim].stride_bytes, dim + 1);
      if (result != kCuSuccess)
        return result;
    }
    return kCuSuccess;
  }

 private:
  CuResult CopyPiece(CuAddress source, bool has_rows) {
    CuCopy2d copy = {};
    copy.source_type = kCuMemoryDevice;
    copy.source_device = source;
    copy.target_type = target_.device != 0 ? kCuMemoryDevice : kCuMemoryHost;
    copy.target_device = target_.device != 0 ? target_.device + done_ : 0;
    copy.target_host = target_.device != 0 ? nullptr : target_.host + done_;
    copy.width_bytes = blocks_.block_bytes;
    copy.height = has_rows ? blocks_.outer.back().count : 1;
    copy.source_pitch = has_rows ? blocks_.outer.back().stride_bytes : blocks_.block_bytes;
    copy.target_pitch = blocks_.block_bytes;
    done_ += copy.width_bytes * copy.height;
    if (copy.height > 1)
      return driver_.copy_2d(&copy, /*stream=*/nullptr);
    // One row may be longer than a pitch can be.
    const CopyTarget target = {copy.target_device, static_cast<uint8_t*>(copy.target_host)};
    return CopySpan(driver_, target, source, copy.width_bytes);
  }

  const CudaDriver& driver_;
  const CopyTarget& target_;
  const Blocks& blocks_;
  std::size_t done_ = 0;
};

}  // namespace

std::optional<std::size_t> FindSpanBytes(const StridedLayout& layout) {
  const std::optional<std::size_t> packed = FindPackedBytes(layout);
  if (!packed || *packed == 0 || layout.strides == nullptr)
    return packed;
  constexpr std::size_t kBytesMax = std::numeric_limits<std::size_t>::max() / 4;
  std::size_t last = 0;  // of the last element, in elements
  for (std::size_t i = 0; i < layout.dim_count; ++i) {
    const std::size_t steps = static_cast<std::size_t>(layout.dims[i]) - 1;
    if (steps == 0)
      continue;
    if (layout.strides[i] < 0)
      return std::nullopt;
    const std::size_t stride = static_cast<std::size_t>(layout.strides[i]);
    if (stride > kBytesMax / steps || stride * steps > kBytesMax - last)
      return std::nullopt;
    last += stride * steps;
  }
  if (last >= kBytesMax / layout.element_bytes)
    return std::nullopt;
  return (last + 1) * layout.element_bytes;
}

CopyPlan PlanCopy(const StridedLayout& layout, std::size_t room_bytes) {
  const std::optional<std::size_t> packed = FindPackedBytes(layout);
  const std::optional<std::size_t> span = FindSpanBytes(layout);
  if (!packed || !span)
    return {CopyKind::kTooLarge, 0};
  const bool has_span_room = *span <= room_bytes;
  if (has_span_room && *span <= *packed)
    return {CopyKind::kSpan, *span};
  if (*packed == 0)
    return {CopyKind::kSpan, 0};
  const std::size_t pieces = FindBlocks(layout).CountPieces();
  if (has_span_room && pieces > kPiecesCheap)
    return {CopyKind::kSpan, *span};
  if (*packed > room_bytes)
    return {CopyKind::kTooLarge, *packed};
  return {pieces <= kPiecesMax ? CopyKind::kRows : CopyKind::kTooManyPieces, *packed};
}

CuResult CopyRows(const CudaDriver& driver, const CopyTarget& target, CuAddress source,
                  const StridedLayout& layout) {
  if (FindPackedBytes(layout).value_or(0) == 0)
    return kCuSuccess;
  const Blocks blocks = FindBlocks(layout);
  return RowCopier(driver, target, blocks).Copy(source, /*dim=*/0);
}

CuResult CopySpan(const CudaDriver& driver, const CopyTarget& target, CuAddress source,
                  std::size_t bytes) {
  if (bytes == 0)
    return kCuSuccess;
  if (target.device != 0)
    return driver.copy_device(target.device, source, bytes, /*stream=*/nullptr);
  return driver.copy_out(target.host, source, bytes, /*stream=*/nullptr);
}

}  // namespace pike::gpu
