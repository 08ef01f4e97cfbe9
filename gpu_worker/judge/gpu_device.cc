#include "gpu_worker/judge/gpu_device.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/unique_fd.h"
#include "gpu_worker/judge/shared_buffer.h"

namespace pike::gpu {
namespace {

constexpr std::size_t kSentinelBytes = std::size_t{256} << 20;
constexpr int kBaselineLooks = 30;
// A sentinel is at its baseline within this; a time slice of a neighbour costs milliseconds.
constexpr double kBaselineFactor = 1.2;
constexpr double kBaselineSlackUs = 10;
// No baseline is believed that exceeds so many times what the memory's width and clock allow: it
// was taken beside a neighbour.
constexpr double kPlausibleFactor = 3;
constexpr double kPlausibleSlackUs = 50;

TaskFailure Failure(const CudaDriver& driver, CuResult result, const char* what) {
  return {.where = "device",
          .kind = result == kCuOutOfMemory ? "memory" : "device",
          .error_type = "CudaError",
          .text = std::string(what) + ": " + CudaErrorText(driver, result)};
}

std::optional<TaskFailure> Check(const CudaDriver& driver, CuResult result, const char* what) {
  if (result == kCuSuccess)
    return std::nullopt;
  return Failure(driver, result, what);
}

// Memory of the GPU that a runner gets as a descriptor.
class DeviceExchange : public ExchangeBuffer {
 public:
  explicit DeviceExchange(const CudaDriver& driver) : driver_(driver) {}
  ~DeviceExchange() override { UnmapMemory(driver_, mapping_); }

  CuResult Create(std::size_t bytes) {
    const CuAllocation allocation = {.type = kCuPinned,
                                     .handle_types = kCuPosixDescriptor,
                                     .location = {kCuOnDevice, 0},
                                     .win32_data = nullptr,
                                     .flags = {}};
    std::size_t granularity = 0;
    CuResult result = driver_.memory_granularity(&granularity, &allocation, /*option=*/0);
    if (result != kCuSuccess || granularity == 0)
      return result;
    const std::size_t rounded = (bytes / granularity + 1) * granularity;
    CuMemory memory = 0;
    result = driver_.memory_create(&memory, rounded, &allocation, /*flags=*/0);
    if (result != kCuSuccess)
      return result;
    int fd = -1;
    result = driver_.memory_export(&fd, memory, kCuPosixDescriptor, /*flags=*/0);
    if (result == kCuSuccess) {
      fd_.Reset(fd);
      result = MapMemory(driver_, memory, rounded, mapping_);
    }
    (void)driver_.memory_release(memory);  // mapping and descriptor keep it
    return result;
  }

  int fd() const override { return fd_.get(); }
  std::size_t size() const override { return mapping_.bytes; }
  uint32_t flags() const override { return kHasBuffers | kDeviceBuffers; }
  std::optional<TaskFailure> Write(std::size_t offset, const void* from,
                                   std::size_t bytes) override {
    return Copy(mapping_.address + offset, reinterpret_cast<CuAddress>(from), bytes);
  }
  std::optional<TaskFailure> Read(void* to, std::size_t bytes) override {
    return Copy(reinterpret_cast<CuAddress>(to), mapping_.address, bytes);
  }

 private:
  std::optional<TaskFailure> Copy(CuAddress to, CuAddress from, std::size_t bytes) {
    if (bytes == 0)
      return std::nullopt;
    return Check(driver_, driver_.copy_device(to, from, bytes, /*stream=*/nullptr), "copy");
  }

  const CudaDriver& driver_;
  UniqueFd fd_;
  DeviceMapping mapping_;
};

// A memfd that both sides register. The runner may write to inputs too, since a registered mapping
// must be writable: it spoils no more than its own.
class RegisteredExchange : public ExchangeBuffer {
 public:
  RegisteredExchange(const CudaDriver& driver, SharedBuffer buffer)
      : driver_(driver), buffer_(std::move(buffer)) {
    is_registered_ = driver_.host_register(buffer_.bytes(), buffer_.size(),
                                           kCuHostPortable | kCuHostMapped) == kCuSuccess;
  }
  ~RegisteredExchange() override {
    if (is_registered_)
      (void)driver_.host_unregister(buffer_.bytes());
  }

  int fd() const override { return buffer_.fd(); }
  std::size_t size() const override { return buffer_.size(); }
  uint32_t flags() const override { return kHasBuffers; }
  std::optional<TaskFailure> Write(std::size_t offset, const void* from,
                                   std::size_t bytes) override {
    if (bytes == 0)
      return std::nullopt;
    return Check(driver_,
                 driver_.copy_out(buffer_.bytes() + offset, reinterpret_cast<CuAddress>(from),
                                  bytes, /*stream=*/nullptr),
                 "copy to host");
  }
  std::optional<TaskFailure> Read(void* to, std::size_t bytes) override {
    if (bytes == 0)
      return std::nullopt;
    return Check(driver_,
                 driver_.copy_in(reinterpret_cast<CuAddress>(to), buffer_.bytes(), bytes,
                                 /*stream=*/nullptr),
                 "copy from host");
  }

 private:
  const CudaDriver& driver_;
  SharedBuffer buffer_;
  bool is_registered_ = false;
};

class DevicePrivate : public PrivateBuffer {
 public:
  explicit DevicePrivate(const CudaDriver& driver) : driver_(driver) {}
  ~DevicePrivate() override {
    if (address_ != 0)
      (void)driver_.free(address_);
  }

  CuResult Create(std::size_t bytes) {
    size_ = bytes;
    return driver_.allocate(&address_, std::max<std::size_t>(bytes, 1));
  }

  uint8_t* bytes() const override { return reinterpret_cast<uint8_t*>(address_); }
  std::size_t size() const override { return size_; }
  CuAddress address() const { return address_; }

 private:
  const CudaDriver& driver_;
  CuAddress address_ = 0;
  std::size_t size_ = 0;
};

class GpuDevice : public BenchDevice {
 public:
  GpuDevice(const CudaDriver& driver, GpuOptions options)
      : driver_(driver), options_(std::move(options)) {}

  std::optional<TaskFailure> Start() {
    CuResult result = driver_.init(/*flags=*/0);
    if (result == kCuSuccess)
      result = driver_.device_get(&device_, /*ordinal=*/0);
    if (result == kCuSuccess)
      result = driver_.primary_retain(&context_, device_);
    if (result == kCuSuccess)
      result = driver_.set_current(context_);
    if (result != kCuSuccess)
      return Failure(driver_, result, "the GPU cannot be used");
    if (!options_.use_memfd) {
      result = DeviceExchange(driver_).Create(/*bytes=*/1);
      // Want of memory says nothing about descriptors: it is tried again, alone if need be.
      if (result == kCuOutOfMemory)
        return Failure(driver_, result, "a buffer for exchange");
      options_.use_memfd = result != kCuSuccess;
      why_memfd_ = options_.use_memfd ? CudaErrorText(driver_, result) : "";
    } else {
      why_memfd_ = "as asked for";
    }
    return FindBaseline();
  }

  uint32_t tensor_type() const override { return kCudaTensor; }

  DeviceFacts Facts() override {
    char name[128] = "";
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    (void)driver_.device_name(name, sizeof(name) - 1, device_);
    (void)driver_.memory_info(&free_bytes, &total_bytes);
    return {.kind = "cuda",
            .name = name,
            .memory_total_bytes = total_bytes,
            .memory_free_bytes = free_bytes,
            .sentinel_us = baseline_us_,
            .bytes_per_s = peak_bytes_per_us_ * 1e6,
            .why_memfd = why_memfd_};
  }

  std::unique_ptr<CallTransport> NewTransport() override {
    return NewBufferTransport(*this,
                              [this](std::size_t bytes, std::unique_ptr<ExchangeBuffer>& buffer) {
                                return NewSharedMemory(bytes, buffer);
                              });
  }

  // An input is where runners' copies are made from.
  std::optional<TaskFailure> Share(TaskValue& /*input*/) override { return std::nullopt; }

  std::optional<TaskFailure> NewPrivate(std::size_t bytes,
                                        std::unique_ptr<PrivateBuffer>& buffer) override {
    (void)driver_.set_current(context_);
    auto created = std::make_unique<DevicePrivate>(driver_);
    const CuResult result = created->Create(bytes);
    if (result == kCuSuccess)
      buffer = std::move(created);
    return Check(driver_, result, "a buffer for outputs");
  }

  std::optional<TaskFailure> Finish() override {
    CuResult result = driver_.set_current(context_);
    if (result == kCuSuccess)
      result = driver_.synchronize();
    std::optional<TaskFailure> failure = Check(driver_, result, "the judge's work on the GPU");
    // An assertion in a kernel is the task's own word; other errors that stay are not.
    if (result == kCuAssert)
      failure->kind = "exception";
    return failure;
  }

  std::optional<TaskFailure> Compare(const PlacedTensor& expected, const PlacedTensor& actual,
                                     const Tolerance& tolerance, TensorError& error) override {
    return options_.compare(expected, actual, tolerance, error);
  }

  std::optional<TaskFailure> LookAtSentinel(SentinelLook& look) override {
    DevicePrivate memory(driver_);
    CuResult result = driver_.set_current(context_);
    if (result == kCuSuccess)
      result = memory.Create(kSentinelBytes);
    std::size_t total_bytes = 0;
    std::size_t free_bytes = 0;
    for (int i = 0; i < 2 && result == kCuSuccess; ++i)  // new memory is slower once
      result = RunSentinel(memory.address(), look.sentinel_us);
    if (result == kCuSuccess)
      result = driver_.memory_info(&free_bytes, &total_bytes);
    if (result == kCuOutOfMemory) {  // a neighbour's memory is not back yet
      look = {.baseline_us = baseline_us_};
      return std::nullopt;
    }
    if (result != kCuSuccess)
      return Failure(driver_, result, "the sentinel");
    baseline_us_ = std::min(baseline_us_, look.sentinel_us);
    look.baseline_us = baseline_us_;
    look.memory_free_bytes = free_bytes + kSentinelBytes;
    look.is_baseline = look.sentinel_us <= kBaselineFactor * baseline_us_ + kBaselineSlackUs;
    return std::nullopt;
  }

 private:
  std::optional<TaskFailure> NewSharedMemory(std::size_t bytes,
                                             std::unique_ptr<ExchangeBuffer>& buffer) {
    (void)driver_.set_current(context_);
    if (!options_.use_memfd) {
      auto created = std::make_unique<DeviceExchange>(driver_);
      const CuResult result = created->Create(bytes);
      if (result == kCuSuccess)
        buffer = std::move(created);
      return Check(driver_, result, "a buffer for exchange");
    }
    std::string error;
    std::optional<SharedBuffer> shared = SharedBuffer::Create(bytes, error);
    if (!shared)
      return TaskFailure{.where = "device", .kind = "device", .error_type = "", .text = error};
    buffer = std::make_unique<RegisteredExchange>(driver_, std::move(*shared));
    return std::nullopt;
  }

  // What a memset of 256 MiB takes by the wall's clock.
  CuResult RunSentinel(CuAddress memory, double& us) {
    const auto start = std::chrono::steady_clock::now();
    CuResult result = driver_.fill(memory, /*value=*/0, kSentinelBytes, /*stream=*/nullptr);
    if (result == kCuSuccess)
      result = driver_.synchronize();
    us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  std::optional<TaskFailure> FindBaseline() {
    DevicePrivate memory(driver_);
    CuResult result = memory.Create(kSentinelBytes);
    for (int i = 0; i < kBaselineLooks && result == kCuSuccess; ++i) {
      double us = 0;
      result = RunSentinel(memory.address(), us);
      baseline_us_ = i == 0 ? us : std::min(baseline_us_, us);
    }
    if (result != kCuSuccess)
      return Failure(driver_, result, "the sentinel");
    int clock_khz = 0;
    int bus_bits = 0;
    (void)driver_.device_attribute(&clock_khz, kCuMemoryClockKhz, device_);
    (void)driver_.device_attribute(&bus_bits, kCuMemoryBusBits, device_);
    // Twice in a cycle, as all memory of GPUs so far.
    peak_bytes_per_us_ = 2.0 * clock_khz * 1e-3 * bus_bits / 8;
    if (peak_bytes_per_us_ > 0) {
      const double best_us = static_cast<double>(kSentinelBytes) / peak_bytes_per_us_;
      baseline_us_ = std::min(baseline_us_, kPlausibleFactor * best_us + kPlausibleSlackUs);
    }
    return std::nullopt;
  }

  const CudaDriver driver_;
  GpuOptions options_;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  double baseline_us_ = 0;
  std::string why_memfd_;
  double peak_bytes_per_us_ = 0;
};

}  // namespace

std::optional<TaskFailure> NewGpuDevice(const CudaDriver& driver, GpuOptions options,
                                        std::unique_ptr<BenchDevice>& device) {
  auto gpu = std::make_unique<GpuDevice>(driver, std::move(options));
  std::optional<TaskFailure> failure = gpu->Start();
  if (!failure)
    device = std::move(gpu);
  return failure;
}

}  // namespace pike::gpu
