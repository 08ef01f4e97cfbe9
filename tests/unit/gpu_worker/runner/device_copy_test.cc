#include "gpu_worker/runner/device_copy.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/testing/catch.h"
#include "tests/testing/fake_cuda_driver.h"

namespace pike::gpu {
namespace {

struct Shape {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  std::size_t element_bytes = 4;

  StridedLayout layout() const { return {dims.size(), dims.data(), strides.data(), element_bytes}; }
};

// The tensor of `shape` in numbered memory, packed by the fake GPU and by CopyPacked.
void CheckRows(const Shape& shape, int copies_max) {
  const CudaDriver driver = NewFakeDriver();
  const std::size_t span = FindSpanBytes(shape.layout()).value();
  const std::size_t packed = FindPackedBytes(shape.layout()).value();
  std::vector<uint8_t> memory(span);
  std::iota(memory.begin(), memory.end(), uint8_t{1});
  std::vector<uint8_t> wanted(packed);
  CopyPacked(wanted.data(), memory.data(), shape.layout());
  for (const bool is_host : {false, true}) {
    std::vector<uint8_t> got(packed);
    CopyTarget target;
    if (is_host)
      target.host = got.data();
    else
      target.device = reinterpret_cast<CuAddress>(got.data());
    REQUIRE(CopyRows(driver, target, reinterpret_cast<CuAddress>(memory.data()), shape.layout()) ==
            kCuSuccess);
    CHECK(got == wanted);
  }
  CHECK(TheFakeCuda().copies <= 2 * copies_max);
}

TEST_CASE("CopyRows: a tensor of any strides is packed") {
  CheckRows({{4, 3}, {3, 1}}, 1);
  CheckRows({{4, 3}, {7, 1}}, 1);
  CheckRows({{4, 3}, {1, 4}}, 4);
  CheckRows({{4, 1, 3}, {30, 99, 2}}, 4);
  CheckRows({{2, 3, 4, 5}, {200, 60, 12, 1}}, 6);
  CheckRows({{2, 3, 4, 5}, {240, 80, 20, 4}}, 1);
  CheckRows({{3, 4}, {0, 1}}, 3);
  CheckRows({{3, 4}, {1, 0}}, 12);
  CheckRows({{2, 2}, {0, 0}, 16}, 4);
  CheckRows({{}, {}, 2}, 1);
  CheckRows({{5, 0, 2}, {1, 1, 1}}, 0);
}

TEST_CASE("PlanCopy: what is dense is copied as it lies") {
  const Shape transposed = {{64, 32}, {1, 64}};
  CHECK(PlanCopy(transposed.layout(), 1 << 20).kind == CopyKind::kSpan);
  CHECK(PlanCopy(transposed.layout(), 64 * 32 * 4 - 1).kind == CopyKind::kTooLarge);
  const Shape expanded = {{1 << 20, 4}, {0, 1}};
  const CopyPlan plan = PlanCopy(expanded.layout(), 1 << 10);
  CHECK(plan.kind == CopyKind::kSpan);
  CHECK(plan.bytes == 16);
}

TEST_CASE("PlanCopy: gaps are left out by rows, or kept if there are very many") {
  const Shape rows = {{1000, 3}, {1000, 1}};
  const CopyPlan plan = PlanCopy(rows.layout(), 1 << 20);
  CHECK(plan.kind == CopyKind::kRows);
  CHECK(plan.bytes == 12000);
  const Shape scattered = {{3000, 7, 2}, {42, 6, 2}};
  CHECK(PlanCopy(scattered.layout(), 1 << 20).kind == CopyKind::kSpan);
  const Shape hopeless = {{70000, 2}, {100, 2}};
  CHECK(PlanCopy(hopeless.layout(), 16 << 20).kind == CopyKind::kTooManyPieces);
}

TEST_CASE("PlanCopy: what cannot be is refused") {
  const Shape backwards = {{4}, {-1}};
  CHECK(PlanCopy(backwards.layout(), 1 << 20).kind == CopyKind::kTooLarge);
  const Shape negative = {{-4}, {1}};
  CHECK(PlanCopy(negative.layout(), 1 << 20).kind == CopyKind::kTooLarge);
  const Shape vast = {{2, 2}, {int64_t{1} << 62, 1}};
  CHECK(PlanCopy(vast.layout(), 1 << 20).kind == CopyKind::kTooLarge);
}

}  // namespace
}  // namespace pike::gpu
