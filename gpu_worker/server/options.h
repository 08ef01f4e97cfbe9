#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/device/device_choice.h"

namespace pike::gpu {

struct Options {
  std::string service;           // gRPC target; empty: found as clients find it
  std::string runtime_dir;       // empty: the default runtime folder
  std::string cache_dir;         // empty: gpu-worker in the state folder
  std::string python;            // interpreter with torch
  std::string devices = "auto";  // as device::ChooseDevices
  std::string metrics_address = "127.0.0.1:0";
  size_t slots = 0;             // evaluations at once; 0: by cores and devices
  size_t warm = 0;              // runner sandboxes kept ready; 0: two per slot
  int threads = 0;              // of torch in judge and runners; 0: by cores and devices
  double memory_gib = 0;        // of a runner; 0: a third of the machine's memory, at most 16
  double judge_gib = 0;         // of a judge; 0: the same
  double build_memory_gib = 6;  // of one late build
  double cache_gib = 4;         // artifacts kept on disk
  int drain_seconds = 5;        // after a stop, running evaluations may take this long to end
  uint32_t uid_base = 200'000;  // sandboxes run under uids from here on, if the worker is root
  bool is_without_cgroups = false;
  bool is_sandbox_required = false;  // refuse to run where a layer of the sandbox is missing
};

// What parsing the command line came to: go on with `options`, or exit with `exit_code`.
struct ParsedOptions {
  Options options;
  bool is_exit = false;
  int exit_code = 0;  // 0 after --help, 2 after a usage error
};

// Prints help and errors itself, all problems at once.
ParsedOptions ParseOptions(int argc, char** argv);

// One line per problem; empty if all is well.
std::vector<std::string> CheckOptions(const Options& options);

// Replaces the zeros above by what suits this machine and the devices.
void FillDefaults(const std::vector<device::Device>& devices, Options* options);

}  // namespace pike::gpu
