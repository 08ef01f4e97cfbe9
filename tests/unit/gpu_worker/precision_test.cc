#include "gpu_worker/core/precision.h"

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

using testing::Approx;

const ReferencePrecision kUsual = {
    .errors = {{"fp32", 3e-7}, {"fp16", 4e-4}, {"bf16", 3e-3}},
    .native_error = 3e-7,
};

TEST_CASE("Precision: bounds are multiples of the reference's own errors, finest first") {
  const std::vector<PrecisionError> bounds = FindPrecisionBounds(kUsual, /*slack=*/4);
  REQUIRE(bounds.size() == 3);
  CHECK(bounds[0].name == "fp32");
  CHECK(bounds[0].error == Approx(1.2e-6));
  CHECK(bounds[1].name == "fp16");
  CHECK(bounds[1].error == Approx(4 * 0x1p-11));
  CHECK(bounds[2].name == "bf16");
  CHECK(bounds[2].error == Approx(4 * 0x1p-8));
}

TEST_CASE("Precision: nothing is finer than what outputs are compared with") {
  // Convolutions in TF32, as PyTorch computes them by default.
  ReferencePrecision reference = kUsual;
  reference.errors.insert(reference.errors.begin() + 1, {"tf32", 6e-4});
  reference.native_error = 5e-4;
  const std::vector<PrecisionError> bounds = FindPrecisionBounds(reference, /*slack=*/4);
  REQUIRE(bounds.size() == 3);
  CHECK(bounds[0].name == "tf32");
  CHECK(bounds[0].error == Approx(2.4e-3));
  CHECK(FindLeastPrecision(bounds, "fp32")->name == "tf32");
}

TEST_CASE("Precision: a reference in doubles tells fp64 from fp32") {
  const ReferencePrecision reference = {.errors = {{"fp32", 2e-7}}, .native_error = 0};
  const std::vector<PrecisionError> bounds = FindPrecisionBounds(reference, /*slack=*/4);
  REQUIRE(bounds.size() == 2);
  CHECK(bounds[0].name == "fp64");
  CHECK(bounds[0].error < 1e-12);
}

TEST_CASE("Precision: the least is the one asked for, or the next that is known") {
  const std::vector<PrecisionError> bounds = FindPrecisionBounds(kUsual, /*slack=*/4);
  CHECK(FindLeastPrecision(bounds, "fp32")->name == "fp32");
  CHECK(FindLeastPrecision(bounds, "tf32")->name == "fp16");
  CHECK(FindLeastPrecision(bounds, "bf16")->name == "bf16");
  CHECK_FALSE(FindLeastPrecision({}, "fp32"));
}

TEST_CASE("Precision: without the reference in doubles nothing is known") {
  CHECK(FindPrecisionBounds({.errors = {{"fp32", 1e-7}}, .native_error = {}}, 4).empty());
}

}  // namespace
}  // namespace pike::gpu
