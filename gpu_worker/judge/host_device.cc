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
#include "gpu_worker/judge/shared_buffer.h"

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

class HostExchange : public ExchangeBuffer {
 public:
  explicit HostExchange(SharedBuffer buffer) : buffer_(std::move(buffer)) {}

  int fd() const override { return buffer_.fd(); }
  std::size_t size() const override { return buffer_.size(); }
  uint32_t flags() const override { return kHasBuffers; }
  std::optional<TaskFailure> Write(std::size_t offset, const void* from,
                                   std::size_t bytes) override {
    if (bytes > 0)
      memcpy(buffer_.bytes() + offset, from, bytes);
    return std::nullopt;
  }
  std::optional<TaskFailure> Read(void* to, std::size_t bytes) override {
    if (bytes > 0)
      memcpy(to, buffer_.bytes(), bytes);
    return std::nullopt;
  }

 private:
  SharedBuffer buffer_;
};

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

  std::optional<TaskFailure> NewExchange(std::size_t bytes, Access access,
                                         std::unique_ptr<ExchangeBuffer>& buffer) override {
    std::string error;
    std::optional<SharedBuffer> shared =
        SharedBuffer::Create(bytes,
                             access == Access::kRunnerReads ? SharedBuffer::Access::kRunnerReads
                                                            : SharedBuffer::Access::kRunnerWrites,
                             error);
    if (!shared)
      return TaskFailure{.where = "inputs", .kind = "exception", .error_type = "", .text = error};
    buffer = std::make_unique<HostExchange>(std::move(*shared));
    return std::nullopt;
  }

  std::optional<TaskFailure> NewPrivate(std::size_t bytes,
                                        std::unique_ptr<PrivateBuffer>& buffer) override {
    buffer = std::make_unique<HostPrivate>(bytes);
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

std::unique_ptr<BenchDevice> NewHostDevice() {
  return std::make_unique<HostDevice>();
}

}  // namespace pike::gpu
