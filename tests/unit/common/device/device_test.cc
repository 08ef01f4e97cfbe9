#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/device/core_plan.h"
#include "common/device/device_choice.h"
#include "common/device/nvml.h"
#include "common/device/xid.h"
#include "tests/testing/catch.h"

namespace pike::device {
namespace {

const std::vector<GpuInfo> kGpus = {{"GPU-aa11", "NVIDIA H200", "9.0", 0, 1000},
                                    {"GPU-aa22", "NVIDIA H200", "9.0", 1, 1000},
                                    {"GPU-bb33", "NVIDIA L4", "8.9", 2, 500}};
const std::vector<GpuInfo> kTwo(kGpus.begin(), kGpus.begin() + 2);

std::vector<std::string> Ids(const std::string& text, const std::vector<GpuInfo>& gpus) {
  const auto devices = ChooseDevices(text, gpus);
  INFO(devices.status());
  REQUIRE(devices.ok());
  std::vector<std::string> ids;
  for (const Device& device : *devices)
    ids.push_back(device.id);
  return ids;
}

std::string Problem(const std::string& text, const std::vector<GpuInfo>& gpus) {
  const auto devices = ChooseDevices(text, gpus);
  CHECK_FALSE(devices.ok());
  return std::string(devices.status().message());
}

std::vector<int> Cores(int count) {
  std::vector<int> cores;
  for (int i = 0; i < count; ++i)
    cores.push_back(i);
  return cores;
}

TEST_CASE("GpuClass: a product's name as one word") {
  CHECK(GpuClass("NVIDIA H200") == "nvidia-h200");
  CHECK(GpuClass("NVIDIA A100-SXM4-80GB") == "nvidia-a100-sxm4-80gb");
  CHECK(GpuClass("  Tesla (T4) ") == "tesla-t4");
  CHECK(GpuClass("") == "gpu");
}

TEST_CASE("ChooseDevices: by number, UUID, all, or the CPU") {
  using Words = std::vector<std::string>;
  CHECK(Ids("auto", {}) == Words{"cpu"});
  CHECK(Ids("none", kTwo) == Words{"cpu"});
  CHECK(Ids("auto", kTwo) == Words{"GPU-aa11", "GPU-aa22"});
  CHECK(Ids("all", kTwo) == Words{"GPU-aa11", "GPU-aa22"});
  CHECK(Ids("1", kGpus) == Words{"GPU-aa22"});
  CHECK(Ids("1, 0", kGpus) == Words{"GPU-aa22", "GPU-aa11"});
  CHECK(Ids("GPU-bb", kGpus) == Words{"GPU-bb33"});
  CHECK(Ids("simulated:2", {}) == Words{"simulated-0", "simulated-1"});
  const Device gpu = (*ChooseDevices("2", kGpus))[0];
  CHECK(gpu.kind == Device::Kind::kCuda);
  CHECK(gpu.gpu_class == "nvidia-l4");
  CHECK(gpu.arch == "8.9");
  CHECK(gpu.minor == 2);
}

TEST_CASE("ChooseDevices: what cannot be is told in a line") {
  CHECK(Problem("all", {}).find("use --gpus none") != std::string::npos);
  CHECK(Problem("3", kGpus).find("there are: 0 is NVIDIA H200") != std::string::npos);
  CHECK(Problem("GPU-a", kGpus).find("several") != std::string::npos);
  CHECK(Problem("all", kGpus).find("different classes") != std::string::npos);
  CHECK(Problem("0,GPU-aa11", kGpus).find("twice") != std::string::npos);
  CHECK(Problem("", kGpus).find("no GPU ''") != std::string::npos);
  CHECK(Problem("simulated:0", {}).find("1 to") != std::string::npos);
}

TEST_CASE("PlanCores: two to four per device, at most half, none on small machines") {
  CHECK(PlanCores(Cores(2), 1).reserved[0].empty());
  CHECK(PlanCores(Cores(4), 1).reserved[0] == std::vector<int>{2, 3});
  CHECK(PlanCores(Cores(4), 1).others == std::vector<int>{0, 1});
  CHECK(PlanCores(Cores(16), 1).reserved[0] == std::vector<int>{12, 13, 14, 15});
  CHECK(PlanCores(Cores(8), 4).reserved[0].empty());
  const CorePlan plan = PlanCores(Cores(8), 2);
  CHECK(plan.reserved == std::vector<std::vector<int>>{{6, 7}, {4, 5}});
  CHECK(plan.others == std::vector<int>{0, 1, 2, 3});
  CHECK_FALSE(OwnCores().empty());
  CHECK(CoresText({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8");
  CHECK(*ParseCores("0-2,5,7-8") == std::vector<int>{0, 1, 2, 5, 7, 8});
  for (const char* text : {"", "a", "3-1", "1-2-3", "-1", "9999"})
    CHECK_FALSE(ParseCores(text).ok());
}

TEST_CASE("XidLog: what came since a mark, the last of it") {
  XidLog log;
  CHECK(log.Since(0).empty());
  log.Add(31);
  const uint64_t mark = log.total();
  CHECK(log.Since(mark).empty());
  log.Add(79);
  log.Add(45);
  CHECK(log.Since(mark) == std::vector<uint64_t>{79, 45});
  CHECK(log.Since(0) == std::vector<uint64_t>{31, 79, 45});
  CHECK(log.Since(99).empty());
  for (size_t i = 0; i < XidLog::kKeptMax; ++i)
    log.Add(13);
  CHECK(log.total() == XidLog::kKeptMax + 3);
  CHECK(log.Since(0) == std::vector<uint64_t>(XidLog::kKeptMax, 13));
}

TEST_CASE("IsDeviceXid: the GPU's own errors, not those of programs") {
  for (const uint64_t xid : std::vector<uint64_t>{48, 63, 64, 74, 79, 92, 94, 95, 119, 120})
    CHECK(IsDeviceXid(xid));
  for (const uint64_t xid : std::vector<uint64_t>{0, 13, 31, 32, 43, 45, 69, 1'000})
    CHECK_FALSE(IsDeviceXid(xid));
}

TEST_CASE("OpenNvml: with or without a driver it answers") {
  const auto monitor = OpenNvml();
  if (!monitor.ok()) {
    CHECK(absl::IsNotFound(monitor.status()));
    return;
  }
  const auto gpus = (*monitor)->List();
  REQUIRE(gpus.ok());
  for (const GpuInfo& gpu : *gpus) {
    CHECK((*monitor)->Read(gpu.uuid).ok());
    const uint64_t before = (*monitor)->Xids(gpu.uuid).total();
    CHECK((*monitor)->Xids(gpu.uuid).Since(before).empty());
  }
}

}  // namespace
}  // namespace pike::device
