#include "gpu_worker/core/device_placement.h"

#include "tests/testing/catch.h"

namespace pike::gpu {

TEST_CASE("PickDevice: the least busy healthy device, the first of equals") {
  CHECK(PickDevice({{0, false}}) == 0);
  CHECK(PickDevice({{1, false}, {0, false}, {0, false}}) == 1);
  CHECK(PickDevice({{0, true}, {5, false}}) == 1);
  CHECK(PickDevice({{2, true}, {1, true}}) == 1);
}

}  // namespace pike::gpu
