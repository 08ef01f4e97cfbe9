#include "gpu_worker/supervisor/device_use.h"

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

device::GpuReading ReadingOf(std::vector<device::GpuProcess> processes) {
  device::GpuReading reading;
  reading.memory_total_bytes = 140 * kGiB;
  reading.processes = std::move(processes);
  return reading;
}

TEST_CASE("Device use: others are told from ours") {
  const DeviceUse use = FindDeviceUse(ReadingOf({{7, kGiB}, {8, kGiB}, {9, {}}}), {7, 5});
  CHECK(use.is_visible);
  CHECK(use.foreign == std::vector<pid_t>{8, 9});
  CHECK(ForeignText(use) == "8, 9");
  CHECK(use.memory_floor_bytes == 0);  // what 9 holds is not known
}

TEST_CASE("Device use: one that only draws holds memory, but is no company") {
  const device::GpuReading reading = ReadingOf({{7, 8 * kGiB}, {9, 30 * kGiB, true}});
  const DeviceUse use = FindDeviceUse(reading, {7});
  CHECK(use.foreign.empty());
  CHECK(use.graphics == std::vector<pid_t>{9});
  CHECK(use.memory_floor_bytes == 100 * kGiB);
  CHECK(ForeignText(use) == "graphics only: 9");
  CHECK(ForeignText(FindDeviceUse(ReadingOf({{7, kGiB}, {8, kGiB}, {9, kGiB, true}}), {7})) ==
        "8; graphics only: 9");
}

TEST_CASE("Device use: a list without ours says nothing") {
  const DeviceUse use = FindDeviceUse(ReadingOf({{8, kGiB}, {9, kGiB, true}}), {7});
  CHECK_FALSE(use.is_visible);
  CHECK(use.foreign.empty());
  CHECK(use.graphics.empty());
  CHECK(use.memory_floor_bytes == 0);
  CHECK(ForeignText(use) == "not visible here");
  CHECK(ForeignText(FindDeviceUse({}, {7})) == "not visible here");
}

TEST_CASE("Device use: the floor is what the shown processes leave") {
  const DeviceUse use = FindDeviceUse(ReadingOf({{7, 10 * kGiB}, {5, 8 * kGiB}}), {5, 7});
  CHECK(ForeignText(use) == "none");
  CHECK(use.memory_floor_bytes == 120 * kGiB);
  CHECK(FindDeviceUse(ReadingOf({{7, 139 * kGiB}}), {7}).memory_floor_bytes == 0);
}

}  // namespace
}  // namespace pike::gpu
