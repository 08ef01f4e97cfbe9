#include "gpu_worker/judge/compare.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

using testing::Approx;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename Element>
TensorError Compare(ElementType type, const std::vector<Element>& expected,
                    const std::vector<Element>& actual, Tolerance tolerance = {}) {
  const std::size_t elements = expected.size() * sizeof(Element) / ElementBytes(type);
  return CompareElements(type, expected.data(), actual.data(), elements, tolerance);
}

TEST_CASE("CompareElements: the tolerance is atol + rtol * |expected|") {
  const Tolerance tolerance = {.atol = 0.1, .rtol = 0.01};
  const TensorError error = Compare<float>(ElementType::kFloat32, {0, 100, -100, 100},
                                           {0.09F, 101, -101.2F, 98}, tolerance);
  CHECK(error.mismatched == 2);
  CHECK(error.first_mismatch == 2u);
  CHECK(error.expected_value == -100);
  CHECK(error.max_abs_error == Approx(2));
  CHECK(error.max_rel_error == Approx(0.02));
}

TEST_CASE("CompareElements: what is not finite matches only its like") {
  const std::vector<float> expected = {kNan, kInf, -kInf, 1, kInf, kNan, kInf};
  const std::vector<float> actual = {kNan, kInf, -kInf, kNan, -kInf, 0, 1e30F};
  const TensorError error = Compare(ElementType::kFloat32, expected, actual);
  CHECK(error.mismatched == 4);
  CHECK(error.first_mismatch == 3u);
  CHECK(std::isinf(error.max_abs_error));
}

TEST_CASE("CompareElements: no tolerance swallows a value that is not finite") {
  const Tolerance tolerance = {.atol = std::numeric_limits<double>::max(), .rtol = 1};
  CHECK(Compare<float>(ElementType::kFloat32, {1}, {kInf}, tolerance).mismatched == 1);
  CHECK(Compare<float>(ElementType::kFloat32, {1}, {kNan}, tolerance).mismatched == 1);
}

TEST_CASE("CompareElements: integers and bools must be equal") {
  CHECK(Compare<int32_t>(ElementType::kInt32, {1000, 2}, {1001, 2}).mismatched == 1);
  CHECK(Compare<uint8_t>(ElementType::kBool, {1, 0}, {0, 0}).mismatched == 1);
  const int64_t large = (int64_t{1} << 62) + 1;
  const TensorError error = Compare<int64_t>(ElementType::kInt64, {large}, {large - 1});
  CHECK(error.mismatched == 1);
  CHECK(error.max_abs_error == 1);
}

TEST_CASE("CompareElements: 16-bit floats are read by their bits") {
  // 1.5, the smallest subnormal, infinity.
  CHECK(Compare<uint16_t>(ElementType::kFloat16, {0x3e00, 0x0001, 0x7c00}, {0x3e00, 0x0001, 0x7c00})
            .mismatched == 0);
  const TensorError half = Compare<uint16_t>(ElementType::kFloat16, {0x3e00}, {0xbe00});
  CHECK(half.expected_value == 1.5);
  CHECK(half.actual_value == -1.5);
  const TensorError brain = Compare<uint16_t>(ElementType::kBfloat16, {0x3fc0}, {0x4000});
  CHECK(brain.expected_value == 1.5);
  CHECK(brain.actual_value == 2);
}

TEST_CASE("CompareElements: complex numbers differ by their distance") {
  const TensorError error = Compare<float>(ElementType::kComplex64, {3, 4, 0, 0}, {3, 4, 3, -4});
  CHECK(error.elements == 2);
  CHECK(error.mismatched == 1);
  CHECK(error.first_mismatch == 1u);
  CHECK(error.max_abs_error == Approx(5));
  CHECK(Compare<float>(ElementType::kComplex64, {kNan, 1}, {kNan, 1}).mismatched == 0);
  CHECK(Compare<float>(ElementType::kComplex64, {1, 1}, {1, kNan}).mismatched == 1);
}

TEST_CASE("CompareElements: an empty tensor has no errors") {
  CHECK(CompareElements(ElementType::kFloat64, nullptr, nullptr, 0, {}).mismatched == 0);
}

TEST_CASE("UnravelIndex: counts the last dimension fastest") {
  TensorSpec spec = {};
  spec.dim_count = 3;
  spec.dims[0] = 2;
  spec.dims[1] = 3;
  spec.dims[2] = 4;
  CHECK(UnravelIndex(spec, 23) == std::vector<int64_t>{1, 2, 3});
  CHECK(UnravelIndex(spec, 4) == std::vector<int64_t>{0, 1, 0});
}

TEST_CASE("PackedBytes: sizes that no tensor has are refused") {
  TensorSpec spec = {};
  spec.type_code = 2;
  spec.bits = 32;
  CHECK(PackedBytes(spec) == 4u);
  spec.dim_count = 2;
  CHECK(PackedBytes(spec) == 0u);
  spec.dims[0] = -1;
  CHECK_FALSE(PackedBytes(spec));
  spec.dims[0] = int64_t{1} << 39;
  spec.dims[1] = 4;
  CHECK_FALSE(PackedBytes(spec));
  spec.dim_count = 200;
  CHECK_FALSE(PackedBytes(spec));
  spec.dim_count = 0;
  spec.bits = 4;
  CHECK_FALSE(PackedBytes(spec));
}

}  // namespace
}  // namespace pike::gpu
