#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/limits.h"

namespace pike::coordinator {

// What `pike-coordinator` was asked for.
struct Options {
  std::string listen;       // gRPC target; filled in with the default socket if it was not given
  std::string store;        // state folder; filled in likewise
  std::string runtime_dir;  // as found or given
  std::string metrics_address = "127.0.0.1:0";
  uint32_t mailbox_max = 8'192;         // events that wait for the loop. Range 16 to 1000000
  uint32_t watchers_max = 10'000;       // Watch calls at once. Range 1 to 1000000
  uint64_t blob_bytes_max = 512 << 20;  // largest blob. Range 1 MiB to 16 GiB
  // Rounds of canaries of a GPU worker, 0: none. Range 60 s to 30 days. Fills in `core`'s canaries.
  uint32_t canary_interval_s = 6 * 3'600;
  CoreOptions core;
};

// Reads the command line, finds the folders and checks everything. Returns the options, or the
// status the process must exit with after what had to be printed was printed: 0 for --help, 1 for a
// folder that cannot be used, 2 for a wrong usage (all problems listed at once).
struct ParsedOptions {
  std::optional<Options> options;
  int exit_status = 0;
};
ParsedOptions ParseOptions(int argc, const char* const* argv);

// All that is wrong with `options`, one line each.
std::vector<std::string> Problems(const Options& options);

}  // namespace pike::coordinator
