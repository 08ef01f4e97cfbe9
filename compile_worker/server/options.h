#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pike::compile_worker {

struct Options {
  std::string service;      // gRPC target; empty: found as clients find it
  std::string runtime_dir;  // empty: the default runtime folder
  std::string cache_dir;    // empty: compile-worker in the state folder
  std::string python;       // interpreter with torch
  std::string metrics_address = "127.0.0.1:0";
  size_t slots = 0;             // leases and builds at once; 0: from cores and memory
  size_t warm = 1;              // import sandboxes kept ready, at least 1
  double build_memory_gib = 6;  // of one build
  double memory_gib = 8;        // of one import
  double cache_gib = 4;         // artifacts kept on disk
  uint32_t uid_base = 210'000;  // first uid of sandboxes; workers of one host need their own
  std::string cores;            // to stay on, as "0-11,14"; empty: any
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

}  // namespace pike::compile_worker
