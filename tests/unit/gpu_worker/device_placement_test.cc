#include "gpu_worker/core/device_placement.h"

#include <chrono>

#include "tests/testing/catch.h"

namespace pike::gpu {

TEST_CASE("PickDevice: the least busy healthy device, the first of equals") {
  const MonoTime now{std::chrono::hours(1)};
  const MonoTime later = now + std::chrono::seconds(1);
  CHECK(PickDevice({{0, {}}}, now) == 0);
  CHECK(PickDevice({{1, {}}, {0, {}}, {0, {}}}, now) == 1);
  CHECK(PickDevice({{0, later}, {5, {}}}, now) == 1);
  CHECK(PickDevice({{2, later}, {1, later}}, now) == 1);
  CHECK(PickDevice({{0, later}, {5, {}}}, later) == 0);
}

TEST_CASE("HealthyFrom: the end of the first quarantine, passed if one device is healthy") {
  const MonoTime now{std::chrono::hours(1)};
  const MonoTime soon = now + std::chrono::seconds(30);
  const MonoTime later = now + std::chrono::seconds(60);
  CHECK(HealthyFrom({{1, soon}}) == soon);
  CHECK(HealthyFrom({{0, later}, {3, soon}}) == soon);
  CHECK(HealthyFrom({{0, later}, {3, {}}}) <= now);
}

}  // namespace pike::gpu
