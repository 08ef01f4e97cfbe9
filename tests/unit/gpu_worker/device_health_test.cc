#include "gpu_worker/core/device_health.h"

#include "tests/testing/catch.h"

namespace pike::gpu {

TEST_CASE("DeviceHealth: faults in a row quarantine, ever longer, success forgives") {
  const MonoTime start{std::chrono::hours(1)};
  DeviceHealth health;
  CHECK(health.OnFault(start).count() == 0);
  CHECK_FALSE(health.IsQuarantined(start));
  health.OnSuccess();
  health.OnFault(start);
  CHECK(health.OnFault(start) == DeviceHealth::kQuarantineMin);
  CHECK(health.IsQuarantined(start + DeviceHealth::kQuarantineMin / 2));
  // A neighbour that had begun before fails, too: the same fault.
  CHECK(health.OnFault(start + DeviceHealth::kQuarantineMin / 2).count() == 0);
  CHECK(health.quarantined_until() == start + DeviceHealth::kQuarantineMin);
  MonoTime now = start + DeviceHealth::kQuarantineMin;
  CHECK_FALSE(health.IsQuarantined(now));
  CHECK(health.OnFault(now) == DeviceHealth::kQuarantineMin * 2);
  for (int i = 0; i < 10; ++i) {
    now = health.quarantined_until();
    health.OnFault(now);
  }
  now = health.quarantined_until();
  CHECK(health.OnFault(now) == DeviceHealth::kQuarantineMax);
  health.OnSuccess();
  now = health.quarantined_until();
  CHECK(health.OnFault(now).count() == 0);
  CHECK(health.OnFault(now) == DeviceHealth::kQuarantineMin);
}

TEST_CASE("DeviceHealth: one fault beyond doubt quarantines at once") {
  const MonoTime start{std::chrono::hours(1)};
  DeviceHealth health;
  CHECK(health.OnFault(start, /*is_beyond_doubt=*/true) == DeviceHealth::kQuarantineMin);
  CHECK(health.OnFault(health.quarantined_until()) == 2 * DeviceHealth::kQuarantineMin);
}

}  // namespace pike::gpu
