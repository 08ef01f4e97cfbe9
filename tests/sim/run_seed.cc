#include "tests/sim/run_seed.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include <absl/strings/str_cat.h>

#include "tests/sim/world.h"

namespace pike::coordinator::sim {
namespace {

// Made before each run, since a signal handler may not format.
char g_crash_line[64];

void OnAbort(int) {
  const ssize_t written = write(STDERR_FILENO, g_crash_line, std::strlen(g_crash_line));
  static_cast<void>(written);
}

// Names the seed if the process aborts within its life; the former handler runs afterwards.
class CrashLine {
 public:
  explicit CrashLine(uint64_t seed) {
    std::snprintf(g_crash_line, sizeof(g_crash_line), "CRASH seed %llu\n",
                  static_cast<unsigned long long>(seed));
    former_ = std::signal(SIGABRT, OnAbort);
  }
  ~CrashLine() { std::signal(SIGABRT, former_); }
  CrashLine(const CrashLine&) = delete;
  CrashLine& operator=(const CrashLine&) = delete;

 private:
  void (*former_)(int);
};

}  // namespace

RunResult RunWorld(const SimOptions& options, std::unique_ptr<Tamper> tamper, bool is_printing) {
  const CrashLine crash_line(options.seed);
  World world(options, std::move(tamper));
  if (is_printing)
    world.PrintTrace();
  RunResult result;
  try {
    world.Run();
  } catch (const SafetyViolation& violation) {
    result.outcome = RunOutcome::kSafety;
    result.text = absl::StrCat("SAFETY seed ", options.seed, ": ", violation.what());
  } catch (const LivenessViolation& violation) {
    result.outcome = RunOutcome::kLiveness;
    result.text = absl::StrCat("LIVENESS seed ", options.seed, ": ", violation.what());
  }
  result.trace_hash = world.trace_hash();
  return result;
}

RunResult RunSeed(uint64_t seed, bool is_printing) {
  return RunWorld(DrawOptions(seed), nullptr, is_printing);
}

}  // namespace pike::coordinator::sim
