#include "gpu_worker/supervisor/node.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"
#include "common/build/local_builder.h"
#include "gpu_worker/supervisor/device_lock.h"

namespace pike::gpu {
namespace {

constexpr char kInsideScriptsDir[] = "/pike/inside";
constexpr char kInsideNativeDir[] = "/pike/native";
constexpr char kSimulatedFolder[] = "device";  // beside those of sandboxes
constexpr int kChannelFd = 3;
constexpr int kCudaThreadsMax = 8;

int DefaultThreads(const NodeOptions& options) {
  // They live there once they are loaded.
  if (!options.reserved_cores.empty())
    return static_cast<int>(options.reserved_cores.size());
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const bool is_cuda = options.device.kind == device::Device::Kind::kCuda;
  return is_cuda ? std::min(cores, kCudaThreadsMax) : cores;
}

// The device nodes that CUDA opens for one GPU, as far as this machine has them.
std::vector<std::string> DeviceNodes(const device::Device& gpu) {
  std::vector<std::string> nodes;
  for (const std::string& path :
       {absl::StrCat("/dev/nvidia", gpu.minor), std::string("/dev/nvidiactl"),
        std::string("/dev/nvidia-uvm"), std::string("/dev/nvidia-uvm-tools")}) {
    std::error_code error;
    if (std::filesystem::exists(path, error))
      nodes.push_back(path);
  }
  return nodes;
}

// What a process needs to find its device, and compilers that run at run time to find their places.
void AddDevice(const NodeOptions& options, sandbox::SandboxSpec* spec) {
  spec->environment["TRITON_CACHE_DIR"] = absl::StrCat(kInsideCacheDir, "/triton");
  spec->environment["TORCHINDUCTOR_CACHE_DIR"] = absl::StrCat(kInsideCacheDir, "/inductor");
  spec->environment["TORCH_EXTENSIONS_DIR"] = absl::StrCat(kInsideCacheDir, "/extensions");
  const device::Device& device = options.device;
  if (device.kind != device::Device::Kind::kCuda) {
    spec->environment["PIKE_DEVICE"] = "cpu";
    // No device is handed in; asking the driver for one only takes time.
    spec->environment["CUDA_VISIBLE_DEVICES"] = "";
    return;
  }
  spec->environment["PIKE_DEVICE"] = "cuda";
  spec->environment["CUDA_VISIBLE_DEVICES"] = device.id;
  spec->devices = DeviceNodes(device);
  std::error_code error;
  const std::string& driver = options.driver_folder;
  if (!driver.empty() && !absl::StartsWith(driver, "/usr/") &&
      std::filesystem::is_directory(driver, error)) {
    spec->read_only_binds.push_back({driver, driver});
    spec->environment["LD_LIBRARY_PATH"] = driver;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Node>> Node::Create(NodeOptions options,
                                                   sandbox::SandboxHost* host) {
  // Sandboxes want clean absolute paths; people type others.
  for (std::string* path : {&options.share_dir, &options.native_dir, &options.runtime_dir}) {
    std::error_code error;
    const std::filesystem::path clean = std::filesystem::canonical(*path, error);
    if (error)
      return absl::NotFoundError(absl::StrCat(*path, ": ", error.message()));
    *path = clean.string();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<WorkFolder> folder,
                   WorkFolder::Create(options.runtime_dir, LockFileName(options.device.id)));
  if (options.device.gpu_class == device::kSimulatedClass) {
    RETURN_IF_ERROR(folder->Make(kSimulatedFolder));
    RETURN_IF_ERROR(folder->Put(kSimulatedFolder, kSimulatedWork, ""));
  }
  if (options.threads <= 0)
    options.threads = DefaultThreads(options);
  return std::unique_ptr<Node>(new Node(std::move(options), host, std::move(folder)));
}

Node::Node(NodeOptions options, sandbox::SandboxHost* host, std::unique_ptr<WorkFolder> folder)
    : options_(std::move(options)),
      host_(host),
      folder_(std::move(folder)),
      gate_(options_.on_frozen) {
  sandbox::WarmPoolOptions pool;
  pool.channel_fd = kChannelFd;
  pool.ready_timeout = options_.ready_timeout;
  pool.ready_target = options_.runners_ready;
  runners_ = std::make_unique<sandbox::WarmPool>(
      host_, [this] { return MakeSpec(Role::kRunner, options_.runner_memory_bytes_max); }, pool);
  pool.ready_target = options_.judges_ready;
  judges_ = std::make_unique<sandbox::WarmPool>(
      host_, [this] { return MakeSpec(Role::kJudge, options_.judge_memory_bytes_max); }, pool);
}

absl::StatusOr<sandbox::SandboxSpec> Node::MakeSpec(Role role, int64_t memory_bytes_max) {
  const bool is_judge = role == Role::kJudge;
  sandbox::SandboxSpec spec;
  spec.name = absl::StrCat(is_judge ? "judge-" : "runner-", ++last_number_);
  RETURN_IF_ERROR(folder_->Make(spec.name));
  const build::ToolchainPaths& paths = options_.toolchain.paths;
  spec.argv = {paths.python, "-s", "-P",
               absl::StrCat(kInsideScriptsDir, is_judge ? "/judge_main.py" : "/runner_main.py")};
  const std::string threads = absl::StrCat(options_.threads);
  spec.environment = {{"PIKE_FRAME_FD", absl::StrCat(kChannelFd)},
                      {"PIKE_NATIVE_DIR", kInsideNativeDir},
                      {"OMP_NUM_THREADS", threads},
                      {"MKL_NUM_THREADS", threads},
                      {"PYTHONDONTWRITEBYTECODE", "1"}};
  spec.working_folder = kInsideWorkDir;
  for (const std::string& folder : build::ToolchainFolders(paths, /*with_cuda=*/false))
    spec.read_only_binds.push_back({folder, folder});
  spec.read_only_binds.push_back({options_.share_dir + "/inside", kInsideScriptsDir});
  spec.read_only_binds.push_back({options_.native_dir, kInsideNativeDir});
  spec.read_only_binds.push_back({folder_->PathOf(spec.name), kInsideInputDir});
  AddDevice(options_, &spec);
  if (options_.device.gpu_class == device::kSimulatedClass) {
    spec.read_only_binds.push_back({folder_->PathOf(kSimulatedFolder), kInsideSimulatedDir});
    spec.environment["PIKE_SIMULATED_WORK"] =
        absl::StrCat(kInsideSimulatedDir, "/", kSimulatedWork);
  }
  spec.tmpfs.push_back({kInsideWorkDir, options_.work_bytes_max});
  spec.tmp_bytes_max = options_.work_bytes_max;
  spec.limits.memory_bytes_max = memory_bytes_max;
  // Buffers of inputs and outputs are files to the kernel.
  spec.limits.file_bytes_max = std::max(memory_bytes_max, spec.limits.file_bytes_max);
  return spec;
}

absl::StatusOr<sandbox::WarmSandbox> Node::TakeRunner(int64_t memory_bytes_max, MonoTime deadline,
                                                      const std::stop_token& stop) {
  if (memory_bytes_max == 0 || memory_bytes_max == options_.runner_memory_bytes_max)
    return runners_->Take(deadline, stop);
  sandbox::WarmPoolOptions once;
  once.channel_fd = kChannelFd;
  once.ready_timeout = options_.ready_timeout;
  once.ready_target = 0;
  sandbox::WarmPool cold(
      host_, [this, memory_bytes_max] { return MakeSpec(Role::kRunner, memory_bytes_max); }, once);
  return cold.Take(deadline, stop);
}

absl::StatusOr<sandbox::WarmSandbox> Node::TakeJudge(MonoTime deadline,
                                                     const std::stop_token& stop) {
  return judges_->Take(deadline, stop);
}

void Node::AddQuiet(int change) {
  MutexLock lock(&mutex_);
  quiet_count_ += change;
  for (sandbox::WarmPool* pool : {runners_.get(), judges_.get()}) {
    if (quiet_count_ > 0)
      pool->Pause();
    else
      pool->Resume();
  }
}

absl::Status Node::HandIn(const sandbox::Sandbox& to, const std::string& file,
                          const std::string& bytes) const {
  return folder_->Put(to.name(), file, bytes);
}

}  // namespace pike::gpu
