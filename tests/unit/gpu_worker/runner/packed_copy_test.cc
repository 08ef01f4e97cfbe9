#include "gpu_worker/runner/packed_copy.h"

#include <cstring>
#include <vector>

#include "gpu_worker/runner/call_protocol.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

template <typename Element>
std::vector<Element> Pack(const std::vector<Element>& source, std::size_t first,
                          const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  const StridedLayout layout = {dims.size(), dims.data(),
                                strides.empty() ? nullptr : strides.data(), sizeof(Element)};
  std::vector<Element> packed(FindPackedBytes(layout).value() / sizeof(Element));
  CopyPacked(reinterpret_cast<uint8_t*>(packed.data()),
             reinterpret_cast<const uint8_t*>(source.data() + first), layout);
  return packed;
}

TEST_CASE("CopyPacked: packed memory is copied as it is") {
  const std::vector<int> source = {1, 2, 3, 4, 5, 6};
  CHECK(Pack<int>(source, 0, {2, 3}, {}) == source);
  CHECK(Pack<int>(source, 0, {2, 3}, {3, 1}) == source);
  CHECK(Pack<int>(source, 2, {}, {}) == std::vector<int>{3});
}

TEST_CASE("CopyPacked: transposed, broadcast, reversed and sliced tensors are read in order") {
  const std::vector<int> source = {1, 2, 3, 4, 5, 6};
  CHECK(Pack<int>(source, 0, {3, 2}, {1, 3}) == std::vector<int>{1, 4, 2, 5, 3, 6});
  CHECK(Pack<int>(source, 1, {2, 2}, {0, 1}) == std::vector<int>{2, 3, 2, 3});
  CHECK(Pack<int>(source, 5, {3}, {-2}) == std::vector<int>{6, 4, 2});
  CHECK(Pack<int>(source, 0, {2, 2}, {3, 1}) == std::vector<int>{1, 2, 4, 5});
  CHECK(Pack<int>(source, 0, {2, 1, 3}, {3, 77, 1}) == source);
}

TEST_CASE("CopyPacked: every element size is copied") {
  CHECK(Pack<char>({'a', 'b', 'c', 'd'}, 0, {2}, {2}) == std::vector<char>{'a', 'c'});
  CHECK(Pack<int16_t>({1, 2, 3, 4}, 0, {2}, {2}) == std::vector<int16_t>{1, 3});
  CHECK(Pack<double>({1, 2, 3, 4}, 0, {2}, {2}) == std::vector<double>{1, 3});
  struct Wide {
    double parts[2];
    bool operator==(const Wide& other) const { return parts[0] == other.parts[0]; }
  };
  CHECK(Pack<Wide>({{{1, 0}}, {{2, 0}}, {{3, 0}}}, 0, {2}, {2}) ==
        std::vector<Wide>{{{1, 0}}, {{3, 0}}});
}

TEST_CASE("CopyPacked: an empty tensor copies nothing") {
  CHECK(Pack<int>({}, 0, {0, 5}, {5, 1}).empty());
  CHECK(Pack<int>({}, 0, {5, 0}, {1, 1}).empty());
}

TEST_CASE("FindPackedBytes: impossible sizes are refused") {
  const std::vector<int64_t> huge = {int64_t{1} << 40, int64_t{1} << 40};
  CHECK_FALSE(FindPackedBytes({2, huge.data(), nullptr, 4}));
  const std::vector<int64_t> negative = {-1};
  CHECK_FALSE(FindPackedBytes({1, negative.data(), nullptr, 4}));
}

TEST_CASE("CallRecord: fields lie where the other side reads them") {
  CHECK(sizeof(CallRecord) == 17480);
  CHECK(offsetof(CallRecord, nonce) == 8);
  CHECK(offsetof(CallRecord, status) == 56);
  CHECK(offsetof(CallRecord, text) == 72);
  CHECK(offsetof(CallRecord, tensors) == 72 + kTextBytesMax);
}

}  // namespace
}  // namespace pike::gpu
