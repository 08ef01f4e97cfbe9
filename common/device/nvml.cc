#include "common/device/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace pike::device {
namespace {

// Our own declarations of the few functions that we call; their ABI has not changed for a decade.
using Handle = void*;
using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kInsufficientSize = 7;
constexpr Result kGpuIsLost = 15;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
constexpr int kEccUncorrected = 1;
constexpr int kEccVolatile = 0;
constexpr unsigned kNameBytes = 96;
constexpr unsigned kProcessesMax = 256;
constexpr unsigned long long kNotAvailable = ~0ULL;
constexpr unsigned long long kEventXid = 0x8;
constexpr unsigned kNoWaitMs = 0;
constexpr int kEventsAtOnceMax = 256;

struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct ProcessInfo {  // version 2, which version 3 of the function fills in, too
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct EventData {
  Handle device;
  unsigned long long type;
  unsigned long long data;  // of kEventXid: its number
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct Functions {
  Result (*init)();
  Result (*shutdown)();
  const char* (*error_string)(Result);
  Result (*count)(unsigned*);
  Result (*by_index)(unsigned, Handle*);
  Result (*by_uuid)(const char*, Handle*);
  Result (*uuid)(Handle, char*, unsigned);
  Result (*name)(Handle, char*, unsigned);
  Result (*minor)(Handle, unsigned*);
  Result (*capability)(Handle, int*, int*);
  Result (*memory)(Handle, MemoryInfo*);
  // These may be missing in a driver.
  Result (*persistence)(Handle, unsigned*);
  Result (*clock)(Handle, int, unsigned*);
  Result (*throttle)(Handle, unsigned long long*);
  Result (*temperature)(Handle, int, unsigned*);
  Result (*power_mw)(Handle, unsigned*);
  Result (*ecc)(Handle, int, int, unsigned long long*);
  Result (*compute_processes)(Handle, unsigned*, ProcessInfo*);
  Result (*graphics_processes)(Handle, unsigned*, ProcessInfo*);
  Result (*event_set_create)(Handle*);
  Result (*event_set_wait)(Handle, EventData*, unsigned);
  Result (*event_set_free)(Handle);
  Result (*register_events)(Handle, unsigned long long, Handle);
};

class Nvml : public GpuMonitor {
 public:
  Nvml(void* library, const Functions& functions) : library_(library), nvml_(functions) {}
  ~Nvml() override {
    for (const auto& [uuid, watch] : watches_) {
      if (watch.events != nullptr)
        nvml_.event_set_free(watch.events);
    }
    nvml_.shutdown();
    ::dlclose(library_);
  }

  absl::StatusOr<std::vector<GpuInfo>> List() override {
    unsigned count = 0;
    RETURN_IF_ERROR(Check(nvml_.count(&count), "count the GPUs"));
    std::vector<GpuInfo> gpus;
    for (unsigned i = 0; i < count; ++i) {
      Handle device = nullptr;
      RETURN_IF_ERROR(Check(nvml_.by_index(i, &device), absl::StrCat("open GPU ", i)));
      ASSIGN_OR_RETURN(GpuInfo gpu, Describe(device));
      gpus.push_back(std::move(gpu));
    }
    return gpus;
  }

  absl::StatusOr<GpuReading> Read(const std::string& uuid) override {
    Handle device = nullptr;
    RETURN_IF_ERROR(Check(nvml_.by_uuid(uuid.c_str(), &device), absl::StrCat("open ", uuid)));
    GpuReading reading;
    MemoryInfo memory{};
    const Result alive = nvml_.memory(device, &memory);
    if (alive == kGpuIsLost)
      return absl::UnavailableError(absl::StrCat(uuid, " is lost: ", nvml_.error_string(alive)));
    if (alive == kSuccess) {
      reading.memory_used_bytes = memory.used;
      reading.memory_total_bytes = memory.total;
    }
    reading.sm_clock_mhz = Get<unsigned>(nvml_.clock, device, kClockSm);
    reading.memory_clock_mhz = Get<unsigned>(nvml_.clock, device, kClockMemory);
    reading.throttle_reasons = Get<unsigned long long>(nvml_.throttle, device);
    reading.temperature_c = Get<unsigned>(nvml_.temperature, device, kTemperatureGpu);
    if (const auto power_mw = Get<unsigned>(nvml_.power_mw, device))
      reading.power_w = *power_mw / 1e3;
    reading.ecc_uncorrected =
        Get<unsigned long long>(nvml_.ecc, device, kEccUncorrected, kEccVolatile);
    reading.processes = Processes(device);
    return reading;
  }

  XidLog Xids(const std::string& uuid) override {
    MutexLock lock(&mutex_);
    const auto [found, is_new] = watches_.try_emplace(uuid);
    Watch& watch = found->second;
    if (is_new)
      watch.events = WatchXids(uuid);
    EventData event{};
    for (int i = 0; i < kEventsAtOnceMax && watch.events != nullptr; ++i) {
      if (nvml_.event_set_wait(watch.events, &event, kNoWaitMs) != kSuccess)
        break;
      if (event.type == kEventXid)
        watch.log.Add(event.data);
    }
    return watch.log;
  }

  std::string DriverFolder() const override {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void*>(nvml_.init), &info) == 0 || info.dli_fname == nullptr)
      return "";
    std::error_code error;
    return std::filesystem::canonical(info.dli_fname, error).parent_path().string();
  }

 private:
  struct Watch {
    Handle events = nullptr;  // null: the driver does not tell
    XidLog log;
  };

  // A set that gets the Xid events of the GPU; null if there is none.
  Handle WatchXids(const std::string& uuid) const {
    Handle device = nullptr;
    Handle events = nullptr;
    if (nvml_.event_set_create == nullptr || nvml_.event_set_wait == nullptr ||
        nvml_.event_set_free == nullptr || nvml_.register_events == nullptr ||
        nvml_.by_uuid(uuid.c_str(), &device) != kSuccess ||
        nvml_.event_set_create(&events) != kSuccess)
      return nullptr;
    if (nvml_.register_events(device, kEventXid, events) == kSuccess)
      return events;
    nvml_.event_set_free(events);
    return nullptr;
  }

  absl::Status Check(Result result, const std::string& what) const {
    if (result == kSuccess)
      return absl::OkStatus();
    const std::string message = absl::StrCat(what, ": ", nvml_.error_string(result));
    return result == kGpuIsLost ? absl::UnavailableError(message) : absl::NotFoundError(message);
  }

  absl::StatusOr<GpuInfo> Describe(Handle device) const {
    GpuInfo gpu;
    std::array<char, kNameBytes> text{};
    RETURN_IF_ERROR(Check(nvml_.uuid(device, text.data(), kNameBytes), "read a GPU's UUID"));
    gpu.uuid = text.data();
    RETURN_IF_ERROR(Check(nvml_.name(device, text.data(), kNameBytes), "read a GPU's name"));
    gpu.name = text.data();
    unsigned minor = 0;
    RETURN_IF_ERROR(Check(nvml_.minor(device, &minor), "read a GPU's minor number"));
    gpu.minor = static_cast<int>(minor);
    int major_capability = 0;
    int minor_capability = 0;
    RETURN_IF_ERROR(Check(nvml_.capability(device, &major_capability, &minor_capability),
                          "read a GPU's compute capability"));
    gpu.arch = absl::StrCat(major_capability, ".", minor_capability);
    MemoryInfo memory{};
    RETURN_IF_ERROR(Check(nvml_.memory(device, &memory), "read a GPU's memory"));
    gpu.memory_bytes = memory.total;
    gpu.is_persistent = Get<unsigned>(nvml_.persistence, device).value_or(0) != 0;
    return gpu;
  }

  template <typename T, typename Function, typename... Arguments>
  static std::optional<T> Get(Function function, Handle device, Arguments... arguments) {
    T value{};
    if (function == nullptr || function(device, arguments..., &value) != kSuccess)
      return std::nullopt;
    return value;
  }

  template <typename Function>
  static std::optional<std::vector<GpuProcess>> ListProcesses(Function function, Handle device) {
    std::vector<ProcessInfo> infos(kProcessesMax);
    unsigned count = kProcessesMax;
    if (function == nullptr)
      return std::nullopt;
    const Result result = function(device, &count, infos.data());
    if (result != kSuccess && result != kInsufficientSize)
      return std::nullopt;
    std::vector<GpuProcess> processes;
    for (unsigned i = 0; i < count && i < kProcessesMax; ++i) {
      GpuProcess process;
      process.pid = static_cast<pid_t>(infos[i].pid);
      if (infos[i].used_memory != kNotAvailable)
        process.memory_bytes = infos[i].used_memory;
      processes.push_back(process);
    }
    return processes;
  }

  std::optional<std::vector<GpuProcess>> Processes(Handle device) const {
    std::optional<std::vector<GpuProcess>> all = ListProcesses(nvml_.compute_processes, device);
    const std::optional<std::vector<GpuProcess>> graphics =
        ListProcesses(nvml_.graphics_processes, device);
    if (!all || !graphics)
      return all;
    const size_t computing = all->size();
    for (GpuProcess process : *graphics) {
      // One that does both is in both lists, with the same memory.
      const auto end = all->begin() + static_cast<std::ptrdiff_t>(computing);
      if (std::any_of(all->begin(), end,
                      [&process](const GpuProcess& other) { return other.pid == process.pid; }))
        continue;
      process.is_graphics_only = true;
      all->push_back(process);
    }
    return all;
  }

  void* const library_;
  const Functions nvml_;
  Mutex mutex_;
  std::map<std::string, Watch> watches_ ABSL_GUARDED_BY(mutex_);  // by UUID
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
}

Functions FindAll(void* library) {
  Functions f{};
  Find(library, "nvmlInit_v2", &f.init);
  Find(library, "nvmlShutdown", &f.shutdown);
  Find(library, "nvmlErrorString", &f.error_string);
  Find(library, "nvmlDeviceGetCount_v2", &f.count);
  Find(library, "nvmlDeviceGetHandleByIndex_v2", &f.by_index);
  Find(library, "nvmlDeviceGetHandleByUUID", &f.by_uuid);
  Find(library, "nvmlDeviceGetUUID", &f.uuid);
  Find(library, "nvmlDeviceGetName", &f.name);
  Find(library, "nvmlDeviceGetMinorNumber", &f.minor);
  Find(library, "nvmlDeviceGetCudaComputeCapability", &f.capability);
  Find(library, "nvmlDeviceGetMemoryInfo", &f.memory);
  Find(library, "nvmlDeviceGetPersistenceMode", &f.persistence);
  Find(library, "nvmlDeviceGetClockInfo", &f.clock);
  Find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &f.throttle);
  Find(library, "nvmlDeviceGetTemperature", &f.temperature);
  Find(library, "nvmlDeviceGetPowerUsage", &f.power_mw);
  Find(library, "nvmlDeviceGetTotalEccErrors", &f.ecc);
  Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &f.compute_processes);
  Find(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", &f.graphics_processes);
  Find(library, "nvmlEventSetCreate", &f.event_set_create);
  Find(library, "nvmlEventSetWait_v2", &f.event_set_wait);
  Find(library, "nvmlEventSetFree", &f.event_set_free);
  Find(library, "nvmlDeviceRegisterEvents", &f.register_events);
  return f;
}

bool IsComplete(const Functions& f) {
  return f.init != nullptr && f.shutdown != nullptr && f.error_string != nullptr &&
         f.count != nullptr && f.by_index != nullptr && f.by_uuid != nullptr && f.uuid != nullptr &&
         f.name != nullptr && f.minor != nullptr && f.capability != nullptr && f.memory != nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuMonitor>> OpenNvml() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return absl::NotFoundError("no NVIDIA driver: libnvidia-ml.so.1 is not there");
  const Functions functions = FindAll(library);
  if (!IsComplete(functions)) {
    ::dlclose(library);
    return absl::NotFoundError("the NVIDIA driver is too old: version 525 or newer is needed");
  }
  const Result result = functions.init();
  if (result != kSuccess) {
    const std::string why = functions.error_string(result);
    ::dlclose(library);
    return absl::NotFoundError(absl::StrCat("the NVIDIA driver does not work: ", why));
  }
  return std::unique_ptr<GpuMonitor>(new Nvml(library, functions));
}

}  // namespace pike::device
