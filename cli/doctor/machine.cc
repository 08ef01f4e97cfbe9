#include "cli/doctor/machine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include "common/base/file.h"

namespace pike::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kDiskGibMin = 2;    // builds, native parts, the store
constexpr double kMemoryGibMin = 4;  // a judge, two runners, a build
constexpr int kGpusMax = 64;

// What is used of the CUDA driver API, declared here so that no toolkit is needed to build pike.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*total_memory)(size_t*, int) = nullptr;
};

template <typename Function>
bool LoadSymbol(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

// The GPUs that the driver shows, or why it shows none. The library stays loaded: its threads may
// still run.
std::pair<std::vector<std::string>, std::string> ListGpus() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return {{}, "libcuda.so.1 cannot be loaded"};
  Driver driver;
  if (!LoadSymbol(library, "cuInit", &driver.init) ||
      !LoadSymbol(library, "cuDeviceGetCount", &driver.device_count) ||
      !LoadSymbol(library, "cuDeviceGetName", &driver.device_name) ||
      !LoadSymbol(library, "cuDeviceTotalMem_v2", &driver.total_memory))
    return {{}, "libcuda.so.1 is no CUDA driver"};
  int count = 0;
  int error = driver.init(0);
  if (error == 0)
    error = driver.device_count(&count);
  if (error != 0)
    return {{}, absl::StrCat("the driver answers with CUDA error ", error)};
  std::vector<std::string> gpus;
  for (int device = 0; device < count && device < kGpusMax; device++) {
    std::array<char, 128> name{};
    size_t bytes = 0;
    if (driver.device_name(name.data(), name.size() - 1, device) == 0 &&
        driver.total_memory(&bytes, device) == 0)
      gpus.push_back(absl::StrFormat("%s, %.0f GiB", name.data(), bytes / kGib));
  }
  return {gpus, gpus.empty() ? "the driver shows no device" : ""};
}

bool HasDeviceNode() {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "nvidia") && name.size() > 6 && absl::ascii_isdigit(name[6]))
      return true;
  }
  return false;
}

// MemAvailable of /proc/meminfo; negative if it is not there.
double AvailableGib() {
  const auto text = ReadFile("/proc/meminfo", 64 << 10);
  for (const absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() >= 2 && words[0] == "MemAvailable:" && absl::SimpleAtoi(words[1], &kib))
      return static_cast<double>(kib) * 1024 / kGib;
  }
  return -1;
}

}  // namespace

void CheckGpu(bool is_torch_without_cuda, std::vector<Finding>* findings) {
  if (!HasDeviceNode()) {
    findings->push_back(Optional("GPU", "no /dev/nvidia0: candidates are evaluated on the CPU",
                                 "if there is one, load the NVIDIA driver, or start the container "
                                 "with --gpus all"));
    return;
  }
  const auto [gpus, problem] = ListGpus();
  if (!problem.empty()) {
    findings->push_back(Missing("GPU", absl::StrCat("there is /dev/nvidia0, but ", problem),
                                "install the NVIDIA driver's libraries (libcuda.so.1), or start "
                                "the container with --gpus all and "
                                "NVIDIA_DRIVER_CAPABILITIES=compute,utility; `nvidia-smi` must "
                                "work"));
    return;
  }
  findings->push_back(Ok("GPU", absl::StrJoin(gpus, "; ")));
  if (is_torch_without_cuda)
    findings->push_back(Missing("torch with CUDA", "this torch is built without CUDA",
                                "pip install a torch with CUDA into that Python"));
  if (::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr)
    findings->push_back(Optional("libnvidia-ml.so.1", "clocks and throttling are not recorded",
                                 "install the NVIDIA driver's utilities, or add utility to "
                                 "NVIDIA_DRIVER_CAPABILITIES"));
}

void CheckRoom(const std::vector<std::string>& folders, std::vector<Finding>* findings) {
  const double memory_gib = AvailableGib();
  const std::string memory = absl::StrFormat("%.1f GiB available", memory_gib);
  if (memory_gib >= kMemoryGibMin)
    findings->push_back(Ok("memory", memory));
  else if (memory_gib >= 0)
    findings->push_back(
        Optional("memory", memory, absl::StrFormat("free at least %.0f GiB", kMemoryGibMin)));
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::space_info space = fs::space(folder, error);
    if (error)
      continue;  // whoever needs the folder says so
    const double gib = static_cast<double>(space.available) / kGib;
    const std::string room = absl::StrFormat("%.1f GiB free", gib);
    findings->push_back(gib >= kDiskGibMin
                            ? Ok(absl::StrCat("disk of ", folder), room)
                            : Missing(absl::StrCat("disk of ", folder), room,
                                      absl::StrFormat("free at least %.0f GiB", kDiskGibMin)));
  }
}

}  // namespace pike::cli
