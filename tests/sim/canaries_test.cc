#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tests/sim/run_seed.h"
#include "tests/sim/sim_options.h"
#include "tests/sim/tamper.h"
#include "tests/testing/catch.h"

// Workers that begin to lie at some time, and the bugs that would let them.
namespace pike::coordinator::sim {
namespace {

// Everything else runs through, and what a liar said is certain to be found by its next round.
SimOptions Lying(uint64_t seed) {
  SimOptions options;
  options.seed = seed;
  options.core.heartbeat_interval = Milliseconds(200);
  options.core.lease_timeout = Milliseconds(1'000);
  options.core.gpu_classes = {"class-0"};
  options.core.lease_slack = Milliseconds(0);
  options.core.canaries = SimCanaries();
  options.core.canary_interval = Milliseconds(2'000);
  options.faults.liars = 600;
  options.lies_after_max = std::chrono::milliseconds(4'000);
  options.gpu_workers = 3;
  options.slots_max = 2;
  options.principals = 2;
  options.evaluations_per_principal = 30;
  options.arrival_max = std::chrono::milliseconds(6'000);
  options.faults_end = Milliseconds(8'000);
  return options;
}

// Counts the lies that became verdicts, and those that stand. Changes nothing.
struct LieCounter : Tamper {
  struct Counts {
    uint64_t told = 0;
    std::set<EvaluationId> standing;
  };
  explicit LieCounter(Counts* its_counts) : counts(*its_counts) {}
  void OnCommands(std::vector<Command>* commands) override {
    for (const Command& command : *commands) {
      const auto* append = std::get_if<AppendRecord>(&command);
      if (append == nullptr)
        continue;
      if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&append->record))
        counts.standing.erase(withdrawn->evaluation_id);
      const auto* ended = std::get_if<EvaluationEnded>(&append->record);
      if (ended != nullptr && ended->speedup == kLiedSpeedup) {
        ++counts.told;
        counts.standing.insert(ended->evaluation_id);
      }
    }
  }
  Counts& counts;
};

TEST_CASE("Canaries: a lying worker is found, and its verdicts are queued again", "[sim]") {
  uint64_t told = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    LieCounter::Counts counts;
    CHECK(RunWorld(Lying(seed), std::make_unique<LieCounter>(&counts)).text == "");
    CHECK(counts.standing.empty());
    told += counts.told;
  }
  CHECK(told > 30);
}

struct SkipsCanaries : Tamper {
  void OnLimits(CoreOptions* limits) override { limits->canaries.clear(); }
};

struct LetsVerdictsStand : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    std::erase_if(*commands, [](const Command& command) {
      const auto* append = std::get_if<AppendRecord>(&command);
      return append != nullptr && std::holds_alternative<VerdictWithdrawn>(append->record);
    });
  }
};

template <typename T>
bool IsFoundByChecker() {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    if (RunWorld(Lying(seed), std::make_unique<T>()).text.find(": canary: ") != std::string::npos)
      return true;
  }
  return false;
}

TEST_CASE("Planted bug: work before canaries, or a lie that stands, is found", "[sim]") {
  CHECK(IsFoundByChecker<SkipsCanaries>());
  CHECK(IsFoundByChecker<LetsVerdictsStand>());
}

}  // namespace
}  // namespace pike::coordinator::sim
