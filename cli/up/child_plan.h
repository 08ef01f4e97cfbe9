#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/device/gpu.h"

namespace pike::cli {

// What the user asked of `pike up`, as typed.
struct UpOptions {
  std::string gpus = "auto";  // as device::ChooseDevices
  int compile_slots = 0;      // 0: the worker decides by cores and memory
  int gpu_slots = 0;          // 0: the worker decides by cores
  std::string store;          // empty: the default state folder
  std::string cache_dir;      // empty: in the state folder
  std::string listen;         // empty: a Unix socket in the runtime folder
  std::string python;
  std::string metrics_base_port = "9464";  // or "off"
  bool is_until_idle = false;
  int idle_grace_s = 60;
  bool is_sandbox_required = false;
  std::string canaries = "on";  // or "off"
};

// Everything `pike up` needs, found and checked.
struct UpSettings {
  std::string runtime_dir;
  std::string state_dir;
  std::string target;
  std::string python;
  std::string coordinator;  // program paths
  std::string compile_worker;
  std::string gpu_worker;
  int compile_slots = 0;
  int gpu_slots = 0;
  std::string cache_dir;
  bool is_sandbox_required = false;
  bool has_canaries = true;
  std::string devices;                   // for the GPU worker's --devices
  std::vector<std::string> gpu_classes;  // that will have a worker
  std::string compile_cores;             // for the compile worker's --cores; empty: any
  // Addresses for --metrics-address, in the order coordinator, compile worker, GPU worker.
  std::vector<std::string> metrics_addresses;
  std::vector<std::string> warnings;
};

// One child: the coordinator first.
struct ChildPlan {
  std::string name;
  std::vector<std::string> argv;
};

// Finds folders, programs and Python; makes the folders. InvalidArgument: all problems, a line
// each, with what to do.
absl::StatusOr<UpSettings> ResolveUpOptions(const UpOptions& options,
                                            const std::string& runtime_dir);

// Ports to try for the three processes and `pike up` itself: base and the next three. None for
// "off". InvalidArgument if it is neither "off" nor a port.
absl::StatusOr<std::vector<int>> MetricsPorts(const std::string& base_port);

// Fills `devices` and `gpu_classes` in. InvalidArgument if `gpus` names nothing among `present`.
absl::Status ResolveGpus(const std::string& gpus, const std::vector<device::GpuInfo>& present,
                         UpSettings* settings);

// Command lines of the three processes.
std::vector<ChildPlan> PlanChildren(const UpSettings& settings);

}  // namespace pike::cli
