#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/sandbox/warm_pool.h"
#include "gpu_worker/core/observation.h"
#include "gpu_worker/supervisor/node.h"
#include "gpu_worker/supervisor/sandbox_member.h"
#include "gpu_worker/supervisor/task_report.h"

namespace pike::gpu {

// What a judge says about its task and device. Trusted.
struct TaskFacts {
  bool has_device_frames = false;  // knows `prepare` and `settle`
  double reference_ms = 0;         // of one call; 0: not known
  uint64_t device_memory_free_bytes = 0;
  double device_bytes_per_s = 0;              // the memory's peak; 0: not known
  std::map<std::string, CheckedTask> checks;  // by ToleranceKey
};

// A task as a judge needs it.
struct TaskFile {
  std::string version;
  std::string source;
  uint64_t weight_seed = 0;
  std::string entry_reference;
};

// A judge with its task open: a sandbox of its own, for one task and one device, used by one
// evaluation at a time. Not thread-safe. The destructor kills it.
class Bench {
 public:
  Bench(Node* node, std::string task_version, sandbox::WarmSandbox warm);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  absl::Status Send(const nlohmann::json& request, const std::vector<int>& fds = {});
  // The next answer; nothing if `deadline` comes first. An error is the judge's end, or an answer
  // that is not ours, which counts as the same.
  absl::StatusOr<std::optional<nlohmann::json>> Read(MonoTime deadline);
  int fd() const { return warm_.channel.fd(); }

  // From here on it uses the device as part of `party`, nobody's while it idles. Waits while
  // somebody else times.
  void Join(QuietGate::PartyId party) { member_.Join(party); }
  void KeepOnReservedCores() { node_->KeepOnReserved(warm_.sandbox.get()); }

  // How it ended: waits a moment for it to do so by itself, then kills.
  ProcessFacts End();
  // Kills it. False: its processes hang in the driver and are given up.
  bool Kill();
  bool HasEnded() const { return warm_.sandbox->Wait(MonoNow()).has_value(); }
  absl::Status HandIn(const TaskFile& task) const;

  TaskFacts facts;
  const std::string& task_version() const { return task_version_; }
  const sandbox::Sandbox& sandbox() const { return *warm_.sandbox; }

 private:
  Node* const node_;
  const std::string task_version_;
  sandbox::WarmSandbox warm_;
  SandboxMember member_;
};

// Idle benches, so that a task's next candidate finds its judge ready. Bounded; the least recently
// used one goes first. Thread-safe.
class BenchShelf {
 public:
  BenchShelf(size_t idle_max, std::chrono::milliseconds idle_time_max)
      : idle_max_(idle_max), idle_time_max_(idle_time_max) {}

  // An idle bench of this task that lives, or null.
  std::unique_ptr<Bench> Take(const std::string& task_version);
  // REQUIRES: it is between evaluations.
  void Put(std::unique_ptr<Bench> bench, MonoTime now);
  // Closes those that were idle for too long.
  void CloseIdle(MonoTime now);
  void CloseAll() { CloseIdle(MonoTime::max()); }

 private:
  struct Idle {
    std::unique_ptr<Bench> bench;
    MonoTime since;
  };
  const size_t idle_max_;
  const std::chrono::milliseconds idle_time_max_;
  Mutex mutex_;
  std::list<Idle> idle_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace pike::gpu
