#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "tests/sim/run_seed.h"
#include "tests/sim/sim_options.h"
#include "tests/sim/tamper.h"
#include "tests/testing/catch.h"

// A checker that cannot fail proves nothing: each finds a bug planted between the core and its
// shell.
namespace pike::coordinator::sim {
namespace {

// A quiet cluster in which everything runs through.
SimOptions Calm(uint64_t seed) {
  SimOptions options;
  options.seed = seed;
  options.core.heartbeat_interval = Milliseconds(200);
  options.core.lease_timeout = Milliseconds(1'000);
  options.core.gpu_classes = {"class-0"};
  options.core.lease_slack = Milliseconds(0);
  options.principals = 2;
  options.keyed = 0;
  options.faults_end = Milliseconds(5'000);
  return options;
}

using Draw = std::function<SimOptions(uint64_t seed)>;
using Plant = std::function<std::unique_ptr<Tamper>()>;

// The report of the first of thirty seeds that a checker of this name objects to.
std::string Report(const Draw& draw, const Plant& plant, const std::string& checker) {
  std::string last = "no report";
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const RunResult result = RunWorld(draw(seed), plant());
    if (result.text.find(": " + checker + ": ") != std::string::npos)
      return checker;
    if (!result.text.empty())
      last = result.text;
  }
  return last;
}

template <typename T>
Plant PlantA() {
  return [] { return std::make_unique<T>(); };
}

TEST_CASE("Planted bug: none, and the calm cluster passes", "[sim]") {
  for (uint64_t seed = 1; seed <= 30; ++seed)
    CHECK(RunWorld(Calm(seed)).text == "");
}

struct DropsVerdicts : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    std::erase_if(*commands, [](const Command& command) {
      const auto* append = std::get_if<AppendRecord>(&command);
      return std::holds_alternative<EndEvaluation>(command) ||
             (append != nullptr && std::holds_alternative<EvaluationEnded>(append->record));
    });
  }
};

struct RepeatsVerdicts : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    const std::vector<Command> once = *commands;
    for (const Command& command : once) {
      if (std::holds_alternative<EndEvaluation>(command))
        commands->push_back(command);
    }
  }
};

TEST_CASE("Planted bug: a verdict dropped or repeated is found", "[sim]") {
  CHECK(Report(Calm, PlantA<DropsVerdicts>(), "verdict") == "verdict");
  CHECK(Report(Calm, PlantA<RepeatsVerdicts>(), "verdict") == "verdict");
}

struct MixesVerdicts : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    for (Command& command : *commands) {
      auto* end = std::get_if<EndEvaluation>(&command);
      auto* verdict = end == nullptr ? nullptr : std::get_if<WorkerVerdict>(&end->verdict);
      if (verdict != nullptr)
        std::swap(verdict->payload, last);
    }
  }
  std::string last = "verdict of nobody";
};

TEST_CASE("Planted bug: a verdict of another candidate is found", "[sim]") {
  CHECK(Report(Calm, PlantA<MixesVerdicts>(), "attribution") == "attribution");
}

struct GrantsTwice : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    const std::vector<Command> once = *commands;
    for (const Command& command : once) {
      const auto* append = std::get_if<AppendRecord>(&command);
      const auto* granted =
          append == nullptr ? nullptr : std::get_if<LeaseGranted>(&append->record);
      if (granted == nullptr)
        continue;
      LeaseGranted second = *granted;
      second.lease.lease_id.number += 1'000'000;
      commands->push_back(AppendRecord{second});
    }
  }
};

TEST_CASE("Planted bug: a second lease for the same work is found", "[sim]") {
  CHECK(Report(Calm, PlantA<GrantsTwice>(), "lease") == "lease");
}

struct AllowsOneMoreAttempt : Tamper {
  void OnLimits(CoreOptions* limits) override { ++limits->attempts_max; }
};

TEST_CASE("Planted bug: an attempt over the limit is found", "[sim]") {
  const auto failing = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.faults.task_fails = 900;
    options.faults_end = Milliseconds(20'000);  // past the wait before the third attempt
    return options;
  };
  CHECK(Report(failing, PlantA<AllowsOneMoreAttempt>(), "attempts") == "attempts");
}

struct TriesAgainAtOnce : Tamper {
  void OnLimits(CoreOptions* limits) override { limits->retry_delay = Milliseconds(0); }
};

TEST_CASE("Planted bug: an attempt at once after a failure is found", "[sim]") {
  const auto failing = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.faults.task_fails = 500;
    return options;
  };
  CHECK(RunWorld(failing(1)).text == "");
  CHECK(Report(failing, PlantA<TriesAgainAtOnce>(), "attempts") == "attempts");
}

struct GivesUpTooSoon : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    for (Command& command : *commands) {
      auto* end = std::get_if<EndEvaluation>(&command);
      if (end != nullptr)
        end->verdict = CoreVerdict{VerdictKind::kInfraError, "no worker: planted"};
      auto* append = std::get_if<AppendRecord>(&command);
      auto* ended = append == nullptr ? nullptr : std::get_if<EvaluationEnded>(&append->record);
      if (ended != nullptr)
        ended->kind = VerdictKind::kInfraError;
    }
  }
};

TEST_CASE("Planted bug: work ended for want of a worker that is there is found", "[sim]") {
  CHECK(Report(Calm, PlantA<GivesUpTooSoon>(), "service") == "service");
}

struct IgnoresBound : Tamper {
  void OnLimits(CoreOptions* limits) override { limits->queue_compile_max = 1'000; }
};

TEST_CASE("Planted bug: a queue above its bound is found", "[sim]") {
  const auto small = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.core.queue_compile_max = 2;
    return options;
  };
  CHECK(RunWorld(small(1)).text == "");
  CHECK(Report(small, PlantA<IgnoresBound>(), "bounds") == "bounds");
}

struct CallsCancelledValid : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    for (Command& command : *commands) {
      if (auto* end = std::get_if<EndEvaluation>(&command)) {
        if (auto* verdict = std::get_if<CoreVerdict>(&end->verdict))
          verdict->kind = VerdictKind::kValid;
      }
      auto* append = std::get_if<AppendRecord>(&command);
      auto* ended = append == nullptr ? nullptr : std::get_if<EvaluationEnded>(&append->record);
      if (ended != nullptr && ended->kind == VerdictKind::kCancelled)
        ended->kind = VerdictKind::kValid;
    }
  }
};

TEST_CASE("Planted bug: a cancelled evaluation with another end is found", "[sim]") {
  const auto cancelling = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.cancelled = 500;
    return options;
  };
  CHECK(RunWorld(cancelling(1)).text == "");
  CHECK(Report(cancelling, PlantA<CallsCancelledValid>(), "cancel") == "cancel");
}

struct ForgetsOneAcceptance : Tamper {
  void OnCommands(std::vector<Command>* commands) override {
    std::erase_if(*commands, [this](const Command& command) {
      const auto* append = std::get_if<AppendRecord>(&command);
      const bool is_acceptance =
          append != nullptr && std::holds_alternative<EvaluationAccepted>(append->record);
      return is_acceptance && std::exchange(has_forgotten, true) == false;
    });
  }
  bool has_forgotten = false;
};

TEST_CASE("Planted bug: an acknowledged evaluation lost in a crash is found", "[sim]") {
  const auto crashing = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.compile_workers = options.gpu_workers = 0;  // everything waits
    options.faults.coordinator_crash_period = Milliseconds(200);
    return options;
  };
  CHECK(RunWorld(crashing(1)).text == "");
  CHECK(Report(crashing, PlantA<ForgetsOneAcceptance>(), "durability") == "durability");
}

struct KnowsOneTenant : Tamper {
  bool OnEvent(Event* event) override {
    if (auto* submitted = std::get_if<EvaluationSubmitted>(event))
      submitted->principal = {"all"};
    return true;
  }
};

TEST_CASE("Planted bug: a starving tenant is found", "[sim]") {
  const auto crowded = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.principals = 3;
    options.evaluations_per_principal = 15;
    return options;
  };
  CHECK(RunWorld(crowded(1)).text == "");
  CHECK(Report(crowded, PlantA<KnowsOneTenant>(), "fairness") == "fairness");
}

struct CountsOneSlotTooMany : Tamper {
  bool OnEvent(Event* event) override {
    if (auto* connected = std::get_if<WorkerConnected>(event))
      ++connected->worker.slots;
    return true;
  }
};

TEST_CASE("Planted bug: an over-committed slot is found", "[sim]") {
  CHECK(Report(Calm, PlantA<CountsOneSlotTooMany>(), "slots") == "slots");
}

struct KeepsMoreKeys : Tamper {
  void OnLimits(CoreOptions* limits) override { limits->client_keys_max = 10'000; }
};

TEST_CASE("Planted bug: a snapshot that gives another state is found", "[sim]") {
  const auto keyed = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.keyed = 1'000;
    options.core.client_keys_max = 1;
    return options;
  };
  CHECK(RunWorld(keyed(1)).text == "");
  CHECK(Report(keyed, PlantA<KeepsMoreKeys>(), "replay") == "replay");
}

struct NeverLooksAtTheClock : Tamper {
  bool OnEvent(Event* event) override { return !std::holds_alternative<TimePassed>(*event); }
};

TEST_CASE("Planted bug: work that never ends is found, and is not called unsafe", "[sim]") {
  const auto hanging = [](uint64_t seed) {
    SimOptions options = Calm(seed);
    options.faults.task_hangs = 500;
    options.faults.commit_max = Milliseconds(10);
    options.liveness_limit = Milliseconds(120'000);
    return options;
  };
  CHECK(RunWorld(hanging(1)).text == "");
  const RunResult result = RunWorld(hanging(1), std::make_unique<NeverLooksAtTheClock>());
  CHECK(result.outcome == RunOutcome::kLiveness);
  CHECK(result.text.find("LIVENESS seed 1: liveness: long after the faults stopped: ") == 0);
}

struct Aborts : Tamper {
  bool OnEvent(Event*) override {
    PIKE_CHECK(false);
    return true;
  }
};

TEST_CASE("Planted bug: a crash names its seed", "[sim]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    RunWorld(Calm(17), std::make_unique<Aborts>());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t got = read(ends[0], buffer, sizeof(buffer)); got > 0;
       got = read(ends[0], buffer, sizeof(buffer)))
    text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(text.find("CRASH seed 17") != std::string::npos);
}

}  // namespace
}  // namespace pike::coordinator::sim
