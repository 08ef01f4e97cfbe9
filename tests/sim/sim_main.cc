#include <cstdint>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "tests/sim/run_seed.h"
#include "tests/sim/sim_options.h"

// Exit status: 0 passed, 2 usage, 4 safety, 5 liveness; a crash ends by SIGABRT. Each names its
// seed.
int main(int argc, char** argv) {
  uint64_t seed = 1;
  uint64_t count = 1;
  bool is_tracing = false;
  CLI::App app(
      "Runs the coordinator's core in simulated clusters.\nExample: pike_sim --seed 17 --trace");
  app.add_option("--seed", seed, "First seed")->capture_default_str();
  app.add_option("--count", count, "Seeds to run")->capture_default_str();
  app.add_flag("--trace", is_tracing, "Print everything that happens");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (count == 1)
      std::printf("%s\n", Describe(pike::coordinator::sim::DrawOptions(seed)).c_str());
    const pike::coordinator::sim::RunResult result =
        pike::coordinator::sim::RunSeed(seed + i, is_tracing);
    if (result.outcome == pike::coordinator::sim::RunOutcome::kPassed)
      continue;
    std::fprintf(stderr, "%s\n", result.text.c_str());
    return result.outcome == pike::coordinator::sim::RunOutcome::kSafety ? 4 : 5;
  }
  std::printf("%llu seeds passed\n", static_cast<unsigned long long>(count));
  return 0;
}
