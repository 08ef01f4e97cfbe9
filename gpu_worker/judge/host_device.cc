#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "common/base/check.h"
#include "common/base/unique_fd.h"
#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/element_type.h"

namespace pike::gpu {
namespace {

constexpr double kSimulatedBusyUs = 1e6;

// Of a simulated device (gpu_worker/supervisor/node.h): a lock on its file stands for work on it.
bool HasSimulatedWork() {
  const char* const path = std::getenv("PIKE_SIMULATED_WORK");  // NOLINT(concurrency-mt-unsafe)
  if (path == nullptr)
    return false;
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  return file.is_open() && flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

class HostPrivate : public PrivateBuffer {
 public:
  explicit HostPrivate(std::size_t bytes)
      : bytes_(std::make_unique_for_overwrite<uint8_t[]>(bytes + 1)), size_(bytes) {}

  uint8_t* bytes() const override { return bytes_.get(); }
  std::size_t size() const override { return size_; }

 private:
  const std::unique_ptr<uint8_t[]> bytes_;
  const std::size_t size_;
};

class HostDevice : public BenchDevice {
 public:
  uint32_t tensor_type() const override { return kHostTensor; }

  DeviceFacts Facts() override {
    const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return {.kind = "cpu",
            .name = "cpu",
            .memory_total_bytes = page_bytes * static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)),
            .memory_free_bytes = page_bytes * static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)),
            .sentinel_us = 0};
  }

  std::unique_ptr<CallTransport> NewTransport() override { return NewHostTransport(); }

  std::optional<TaskFailure> Share(TaskValue& input) override {
    auto file = std::make_shared<InputFile>();
    std::optional<TaskFailure> failure = MakeInputFile(input, *file);
    input.file = std::move(file);
    return failure;
  }

  std::optional<TaskFailure> NewPrivate(std::size_t bytes,
                                        std::unique_ptr<PrivateBuffer>& buffer) override {
    buffer = NewHostBuffer(bytes);
    return std::nullopt;
  }

  std::optional<TaskFailure> Finish() override { return std::nullopt; }

  std::optional<TaskFailure> Compare(const PlacedTensor& expected, const PlacedTensor& actual,
                                     const Tolerance& tolerance, TensorError& error) override {
    const std::optional<ElementType> type =
        FindElementType(expected.spec->type_code, expected.spec->bits);
    const std::optional<uint64_t> elements = CountElements(*expected.spec);
    PIKE_CHECK(type && elements);
    error = CompareElements(*type, expected.bytes, actual.bytes, *elements, tolerance);
    return std::nullopt;
  }

  std::optional<TaskFailure> LookAtSentinel(SentinelLook& look) override {
    look = {.memory_free_bytes = Facts().memory_free_bytes, .is_baseline = !HasSimulatedWork()};
    look.sentinel_us = look.is_baseline ? 0 : kSimulatedBusyUs;
    return std::nullopt;
  }
};

}  // namespace

std::unique_ptr<PrivateBuffer> NewHostBuffer(std::size_t bytes) {
  return std::make_unique<HostPrivate>(bytes);
}

std::unique_ptr<BenchDevice> NewHostDevice() {
  return std::make_unique<HostDevice>();
}

}  // namespace pike::gpu
