#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/sim/sim_options.h"
#include "tests/sim/tamper.h"

namespace pike::coordinator::sim {

enum class RunOutcome { kPassed, kSafety, kLiveness };

struct RunResult {
  RunOutcome outcome = RunOutcome::kPassed;
  std::string text;  // "SAFETY seed 17: ...", "LIVENESS seed 17: ..."; empty if it passed
  uint64_t trace_hash = 0;
};

// Runs one world to its end. A crash (a failed CHECK) ends the process, after one line that names
// the seed: "CRASH seed 17".
RunResult RunWorld(const SimOptions& options, std::unique_ptr<Tamper> tamper = nullptr,
                   bool is_printing = false);
RunResult RunSeed(uint64_t seed, bool is_printing = false);

}  // namespace pike::coordinator::sim
