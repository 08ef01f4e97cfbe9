// The judge's GPU without one: its device memory is the test's own.

#include "gpu_worker/judge/gpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu_worker/judge/settle.h"
#include "gpu_worker/runner/exchange_mapping.h"
#include "tests/testing/catch.h"
#include "tests/testing/fake_cuda_driver.h"

namespace pike::gpu {
namespace {

std::unique_ptr<BenchDevice> OpenFake(const CudaDriver& driver, bool use_memfd = false) {
  std::unique_ptr<BenchDevice> device;
  const auto failure = NewGpuDevice(driver, {.use_memfd = use_memfd, .compare = {}}, device);
  REQUIRE_FALSE(failure);
  return device;
}

TensorSpec BytesSpec(int64_t bytes) {
  TensorSpec spec = {};
  spec.type_code = 1;
  spec.bits = 8;
  spec.dim_count = 1;
  spec.dims[0] = bytes;
  spec.strides[0] = 1;
  spec.device_type = kCudaTensor;
  return spec;
}

// Writes through the judge's end, reads and answers through the runner's.
void CheckExchange(BenchDevice& device, const CudaDriver& driver, bool is_device) {
  const std::unique_ptr<CallTransport> transport = device.NewTransport();
  uint8_t first = 1;
  uint8_t second[8] = {0, 0, 0, 7, 0, 0, 0, 0};
  const TaskValue input = {"(TT)", {{BytesSpec(1), &first}, {BytesSpec(8), second}}, nullptr};
  CallRecord prepare = {};
  std::vector<int> fds;
  REQUIRE_FALSE(transport->Prepare(BufferBytes(input), 100, prepare, fds));
  REQUIRE(fds.size() == 2);
  CHECK(prepare.output_buffer_bytes >= 100);
  CHECK(((prepare.flags & kDeviceBuffers) != 0) == is_device);
  ExchangeMapping in;
  ExchangeMapping out;
  if (is_device) {
    REQUIRE(in.MapDevice(fds[0], prepare.input_buffer_bytes, driver) == kCuSuccess);
    REQUIRE(out.MapDevice(fds[1], prepare.output_buffer_bytes, driver) == kCuSuccess);
  } else {
    REQUIRE(in.MapHostForGpu(fds[0], driver));
    REQUIRE(out.MapHostForGpu(fds[1], driver));
  }
  CallRecord call = {};
  std::vector<int> none;
  REQUIRE(PlaceTensors(input, call));
  REQUIRE_FALSE(transport->Reveal(input, call, none));
  CHECK(none.empty());
  uint8_t seen[8] = {};
  REQUIRE(in.CopyTo(reinterpret_cast<CuAddress>(seen), call.tensors[1].offset, 8) == kCuSuccess);
  CHECK(seen[3] == 7);

  auto* const bytes = is_device ? reinterpret_cast<uint8_t*>(out.address()) : out.bytes();
  bytes[0] = 9;
  CallRecord reply = {};
  reply.tensor_count = 1;
  reply.tensors[0] = BytesSpec(1);
  std::unique_ptr<PrivateBuffer> snapshot;
  const TakenOutputs taken = transport->Take(reply, snapshot);
  REQUIRE(taken.violation.empty());
  CHECK(snapshot->bytes()[0] == 9);
  reply.tensors[0].offset = uint64_t{1} << 40;
  CHECK_FALSE(transport->Take(reply, snapshot).violation.empty());
  // They are handed over once.
  REQUIRE_FALSE(transport->Prepare(BufferBytes(input), 100, prepare, none));
  CHECK(none.empty());
}

TEST_CASE("GpuDevice: buffers of either kind carry bytes both ways") {
  const CudaDriver driver = NewFakeDriver();
  const bool use_memfd = GENERATE(false, true);
  const auto device = OpenFake(driver, use_memfd);
  CheckExchange(*device, driver, !use_memfd);
}

TEST_CASE("GpuDevice: without descriptors of device memory it falls back to memfds") {
  const CudaDriver driver = NewFakeDriver();
  TheFakeCuda().create_result = 801;  // not supported
  const auto device = OpenFake(driver);
  CheckExchange(*device, driver, /*is_device=*/false);
  CHECK_FALSE(device->Facts().why_memfd.empty());
}

TEST_CASE("GpuDevice: want of memory is no reason to fall back to memfds") {
  const CudaDriver driver = NewFakeDriver();
  CHECK(OpenFake(driver)->Facts().why_memfd.empty());
  TheFakeCuda().create_result = kCuOutOfMemory;
  std::unique_ptr<BenchDevice> device;
  const auto failure = NewGpuDevice(driver, {}, device);
  REQUIRE(failure);
  CHECK(failure->kind == "memory");
  CHECK(device == nullptr);
}

TEST_CASE("GpuDevice: what it allocates it frees") {
  const CudaDriver driver = NewFakeDriver();
  {
    const auto device = OpenFake(driver);
    std::unique_ptr<PrivateBuffer> memory;
    REQUIRE_FALSE(device->NewPrivate(0, memory));
    CHECK(TheFakeCuda().live_blocks == 1);
  }
  CHECK(TheFakeCuda().live_blocks == 0);
}

TEST_CASE("GpuDevice: want of memory is told from errors that stay") {
  const CudaDriver driver = NewFakeDriver();
  const auto device = OpenFake(driver);
  TheFakeCuda().allocate_result = kCuOutOfMemory;
  std::unique_ptr<PrivateBuffer> memory;
  const auto want = device->NewPrivate(1, memory);
  REQUIRE(want);
  CHECK(want->kind == "memory");
  TheFakeCuda().synchronize_result = 700;
  const auto fault = device->Finish();
  REQUIRE(fault);
  CHECK(fault->kind == "device");
  CHECK(fault->text == "the judge's work on the GPU: FAKE_ERROR: as the test wants");
  TheFakeCuda().synchronize_result = kCuAssert;
  CHECK(device->Finish()->kind == "exception");
}

TEST_CASE("GpuDevice: one that cannot start says so") {
  CudaDriver driver = NewFakeDriver();
  driver.primary_retain = [](CuContext*, CuDevice) { return 46; };
  std::unique_ptr<BenchDevice> device;
  const auto failure = NewGpuDevice(driver, {}, device);
  REQUIRE(failure);
  CHECK(failure->kind == "device");
  CHECK(device == nullptr);
}

TEST_CASE("GpuDevice: facts and the sentinel's look") {
  const CudaDriver driver = NewFakeDriver();
  const auto device = OpenFake(driver);
  const DeviceFacts facts = device->Facts();
  CHECK(facts.kind == "cuda");
  CHECK(facts.name == "Fake GPU");
  CHECK(facts.memory_free_bytes == std::size_t{1} << 30);
  CHECK(facts.sentinel_us > 0);
  SentinelLook look;
  REQUIRE_FALSE(device->LookAtSentinel(look));
  CHECK(look.memory_free_bytes > facts.memory_free_bytes);  // its own memory is given back
  TheFakeCuda().allocate_result = kCuOutOfMemory;
  REQUIRE_FALSE(device->LookAtSentinel(look));
  CHECK_FALSE(look.is_baseline);
  CHECK(look.memory_free_bytes == 0);
}

// Settles with looks as scripted, of which the last one repeats: 'q' quiet, 'b' busy, 'm' little
// memory. Time is up only once `pauses_max` pauses were made.
struct SettleRun {
  SettleRun(std::string script, int pauses_max) {
    const auto failure = Settle(
        [&](SentinelLook& look) -> std::optional<TaskFailure> {
          const char c = script[std::min(looks, script.size() - 1)];
          ++looks;
          look = {.memory_free_bytes = c == 'm' ? 10u : 100u, .is_baseline = c != 'b'};
          return std::nullopt;
        },
        {.timeout = std::chrono::hours(1), .memory_floor_bytes = 50},
        [&] { return ++pauses >= pauses_max; }, result);
    CHECK_FALSE(failure);
  }

  SettleResult result;
  std::size_t looks = 0;
  int pauses = 0;
};

TEST_CASE("Settle: five quiet looks in a row are wanted") {
  const SettleRun quiet("q", 1);
  CHECK(quiet.result.is_quiet);
  CHECK(quiet.looks == 5);
  const SettleRun late("qqqqbqqmq", 9);
  CHECK(late.result.is_quiet);
  CHECK(late.looks == 13);
  CHECK(late.pauses == 2);
}

TEST_CASE("Settle: an order or the end of time ends the wait") {
  const SettleRun busy("b", 3);
  CHECK_FALSE(busy.result.is_quiet);
  CHECK(busy.looks == 3);
  SettleResult result;
  const auto failure = Settle(
      [](SentinelLook& look) -> std::optional<TaskFailure> {
        look.is_baseline = true;
        return std::nullopt;
      },
      {.timeout = std::chrono::milliseconds(0)}, [] { return false; }, result);
  CHECK_FALSE(failure);
  CHECK_FALSE(result.is_quiet);
}

}  // namespace
}  // namespace pike::gpu
