#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/build/toolchain.h"
#include "common/device/device_choice.h"
#include "common/sandbox/sandbox_host.h"
#include "common/sandbox/spec.h"
#include "common/sandbox/warm_pool.h"
#include "gpu_worker/supervisor/quiet_gate.h"
#include "gpu_worker/supervisor/work_folder.h"

namespace pike::gpu {

// Where things lie inside a judge's or runner's sandbox.
inline constexpr char kInsideInputDir[] = "/pike/in";  // read-only: what the supervisor hands in
inline constexpr char kInsideWorkDir[] = "/work";      // writable, private, in memory
// Where Triton, Inductor and others keep what they compile. Their files hold absolute paths, so it
// is the same in every sandbox.
inline constexpr char kInsideCacheDir[] = "/work/cache";
// Of a simulated device, read-only: a lock (flock) on this file stands for work on it. Like queued
// kernels it outlives a stop and ends with its process.
inline constexpr char kInsideSimulatedDir[] = "/pike/device";
inline constexpr char kSimulatedWork[] = "work";

// What judges and runners of one device are made of.
struct NodeOptions {
  build::ProbedToolchain toolchain;
  std::string share_dir;    // holds inside/
  std::string native_dir;   // holds the native parts for this toolchain
  std::string runtime_dir;  // locks and work folders
  device::Device device = {device::Device::Kind::kCpu, "cpu", "cpu", "cpu"};
  // Cores kept for what is timed on it. Empty: none are, so nothing is started beside a timing.
  std::vector<int> reserved_cores;
  // Told how long evaluations stood still for a neighbour's timing. May be empty.
  std::function<void(double seconds)> on_frozen;
  std::string driver_folder;  // of a GPU: the driver's libraries; bound where /usr has them not
  int64_t runner_memory_bytes_max = int64_t{8} << 30;
  int64_t judge_memory_bytes_max = int64_t{12} << 30;
  int64_t work_bytes_max = int64_t{1} << 30;  // of a sandbox's own files
  int threads = 0;           // OMP_NUM_THREADS of judge and runners; 0: one per core
  size_t runners_ready = 2;  // warm runners kept; each costs one torch's memory
  size_t judges_ready = 1;
  std::chrono::milliseconds ready_timeout{180'000};  // to import torch
  // For the device to come to rest: kernels that a frozen neighbour had queued run on.
  std::chrono::milliseconds settle_timeout{10'000};
};

// Starts judges and runners for one device: warm pools of single-use sandboxes, each with an input
// folder of its own. Thread-safe. Ownership: `host` must outlive it.
class Node {
 public:
  static absl::StatusOr<std::unique_ptr<Node>> Create(NodeOptions options,
                                                      sandbox::SandboxHost* host);

  // A warm runner. `memory_bytes_max` 0 is the node's own limit; another limit starts a cold one.
  // Both return Cancelled once `stop` is requested.
  absl::StatusOr<sandbox::WarmSandbox> TakeRunner(int64_t memory_bytes_max, MonoTime deadline,
                                                  const std::stop_token& stop);
  absl::StatusOr<sandbox::WarmSandbox> TakeJudge(MonoTime deadline, const std::stop_token& stop);

  // While one lives no warm sandbox is started unless one is waited for: an import of torch beside
  // a timed call would be measured, too.
  class Quiet {
   public:
    explicit Quiet(Node* node) : node_(node) { node_->AddQuiet(1); }
    ~Quiet() { node_->AddQuiet(-1); }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

   private:
    Node* const node_;
  };
  // Whether a warm sandbox is starting, from before it was quiet.
  bool IsStarting() const { return runners_->starting_count() + judges_->starting_count() > 0; }

  // Makes `bytes` readable in the sandbox as kInsideInputDir/`file`.
  absl::Status HandIn(const sandbox::Sandbox& to, const std::string& file,
                      const std::string& bytes) const;
  // Frees what belongs to a sandbox that has ended.
  void Forget(const sandbox::Sandbox& ended) const { folder_->Remove(ended.name()); }

  const NodeOptions& options() const { return options_; }
  bool is_cuda() const { return options_.device.kind == device::Device::Kind::kCuda; }
  sandbox::SandboxHost* host() const { return host_; }
  QuietGate* gate() { return &gate_; }
  // Moves a loaded process to the reserved cores, if there are any.
  void KeepOnReserved(sandbox::Sandbox* sandbox) const {
    if (!options_.reserved_cores.empty())
      sandbox->KeepOn(options_.reserved_cores);
  }
  // Moves the thread that makes its calls to one core, the same for all. Where the host sets the
  // pace, cores differ by far more than programs do: docs/adr/0013.
  void KeepCallerOnOneCore(sandbox::Sandbox* sandbox) const {
    if (is_cuda() && !options_.reserved_cores.empty())
      sandbox->KeepFirstThreadsOn(options_.reserved_cores.front());
  }

 private:
  enum class Role { kRunner, kJudge };

  Node(NodeOptions options, sandbox::SandboxHost* host, std::unique_ptr<WorkFolder> folder);
  void AddQuiet(int change);
  absl::StatusOr<sandbox::SandboxSpec> MakeSpec(Role role, int64_t memory_bytes_max);

  const NodeOptions options_;
  sandbox::SandboxHost* const host_;
  const std::unique_ptr<WorkFolder> folder_;
  QuietGate gate_;
  std::atomic<uint64_t> last_number_{0};
  Mutex mutex_;
  int quiet_count_ ABSL_GUARDED_BY(mutex_) = 0;
  // Last: their threads use what is above.
  std::unique_ptr<sandbox::WarmPool> runners_;
  std::unique_ptr<sandbox::WarmPool> judges_;
};

}  // namespace pike::gpu
