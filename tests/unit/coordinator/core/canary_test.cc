#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

constexpr Milliseconds kInterval{3'600'000};

CoreOptions WithCanaries() {
  CoreOptions options = PromptOptions();
  options.canary_interval = kInterval;
  options.worker_memory = 3 * kInterval;
  options.canaries = {{.name = "wrong", .payload = "c-wrong", .expected = VerdictKind::kIncorrect},
                      {.name = "good", .payload = "c-good", .speedup_min = 0.5, .speedup_max = 2}};
  return options;
}

struct CanaryFleet : CoreFixture {
  explicit CanaryFleet(const CoreOptions& core_options = WithCanaries())
      : CoreFixture(core_options) {
    ConnectCompile("c1", 4);
  }

  // The canary that the last event gave to a worker; empty if none.
  std::string CanaryTold() const {
    for (const SendLease& lease : All<SendLease>()) {
      if (!lease.evaluation_id.has_value())
        return std::get<RunGrant>(lease.work).payload;
    }
    return "";
  }
  LeaseRef Canary() const { return LeaseOf(EvaluationId()); }
  void Answer(const std::string& worker, VerdictKind kind, double speedup = 0) {
    Finish(worker, Canary(), VerdictReached{kind, "verdict", speedup});
  }
  void PassRound(const std::string& worker) {
    Answer(worker, VerdictKind::kIncorrect);
    Answer(worker, VerdictKind::kValid, 1);
  }
  EvaluationId SubmitToRun() {
    const EvaluationId id = Submit();
    FinishCompile("c1", LeaseOf(id));
    return id;
  }
  // Lets time pass in which everybody is heard of.
  void Idle(const std::vector<std::string>& workers, Milliseconds span) {
    std::vector<Command> all;
    for (Milliseconds passed{0}; passed < span; passed += Milliseconds(5'000)) {
      Pass(std::min(Milliseconds(5'000), span - passed));
      all.insert(all.end(), said.begin(), said.end());
      for (const std::string& worker : workers)
        Beat(worker);
    }
    said = all;
  }
  WorkerView View(const std::string& id) const {
    for (const WorkerView& view : core->Workers()) {
      if (view.worker.worker_id.value == id)
        return view;
    }
    throw std::logic_error("no worker " + id);
  }
};

TEST_CASE("Canary: a round comes before work, and its certificate is on every verdict",
          "[coordinator][core]") {
  CanaryFleet f;
  f.ConnectGpu("g1", 2);
  CHECK(f.CanaryTold() == "c-wrong");
  const EvaluationId id = f.SubmitToRun();
  CHECK(f.StageOf(id) == Stage::kQueuedRun);
  f.Answer("g1", VerdictKind::kIncorrect);
  CHECK(f.CanaryTold() == "c-good");
  CHECK(std::get<RunGrant>(f.Only<SendLease>().work).best_speedup > 1e6);
  CHECK(f.core->Load().active_evaluations == 1);
  CHECK(f.core->Load().leases_canary == 1);
  f.Answer("g1", VerdictKind::kValid, 1.1);
  const ReportCanaries report = f.Only<ReportCanaries>();
  CHECK(report.outcome == CanaryOutcome::kPassed);
  CHECK(report.text == "g1/1/" + std::to_string(f.wall_unix_ms));
  CHECK(f.View("g1").certificate == report.text);
  CHECK(f.StageOf(id) == Stage::kPrepare);
  f.FinishRun("g1", f.LeaseOf(id));
  CHECK(std::get<WorkerVerdict>(f.FullEndOf(id).verdict).certificate == report.text);
  f.Idle({"g1", "c1"}, kInterval);
  CHECK(f.CanaryTold() == "c-wrong");
  f.PassRound("g1");
  CHECK(f.View("g1").certificate == "g1/2/" + std::to_string(f.wall_unix_ms));
}

TEST_CASE("Canary: compile workers, and all where there are none, are not tried",
          "[coordinator][core]") {
  CanaryFleet with;
  CHECK(with.core->NextDeadline().has_value());
  CHECK(with.CanaryTold().empty());
  CanaryFleet without(PromptOptions());
  without.ConnectGpu("g1");
  const EvaluationId id = without.SubmitToRun();
  CHECK(without.StageOf(id) == Stage::kPrepare);
  without.FinishRun("g1", without.LeaseOf(id));
  CHECK(std::get<WorkerVerdict>(without.FullEndOf(id).verdict).certificate.empty());
}

TEST_CASE("Canary: a worker that misjudges one at its start gets no work", "[coordinator][core]") {
  CanaryFleet f;
  f.ConnectGpu("g1");
  const EvaluationId id = f.SubmitToRun();
  f.Answer("g1", VerdictKind::kValid, 1);
  CHECK(f.Only<ReportCanaries>().outcome == CanaryOutcome::kMisjudged);
  CHECK(f.View("g1").state == WorkerState::kDraining);
  CHECK(f.View("g1").canary_failure == "canary 'wrong': valid instead of incorrect");
  CHECK(f.All<SendDrain>().empty());  // it stays, to be seen
  CHECK(f.All<SendLease>().empty());
  CHECK(f.StageOf(id) == Stage::kQueuedRun);
  f.Restart();
  f.ConnectGpu("g1");
  CHECK(f.All<SendDrain>().empty());
  CHECK(f.All<SendLease>().empty());
  CHECK(f.View("g1").canary_failure == "canary 'wrong': valid instead of incorrect");
  f.Do(DrainRequested{{99}, {"g1"}, "by its owner"});
  CHECK(f.All<SendDrain>().size() == 1);
}

TEST_CASE("Canary: what a condemned worker said since its last certificate is queued again",
          "[coordinator][core]") {
  CanaryFleet f;
  f.ConnectGpu("g1", 2);
  f.PassRound("g1");
  const EvaluationId old = f.SubmitToRun();
  f.FinishRun("g1", f.LeaseOf(old));
  f.Idle({"g1", "c1"}, kInterval);
  f.PassRound("g1");  // vouches for `old`
  EvaluationSubmitted request = f.Request("ann", "key");
  request.contest = "contest";
  f.Do(request);
  const EvaluationId told = f.Only<AnswerSubmit>().evaluation_id;
  f.FinishCompile("c1", f.LeaseOf(told));
  f.Finish("g1", f.LeaseOf(told), VerdictReached{VerdictKind::kValid, "verdict", 7});
  CHECK(f.EndOf(told) == VerdictKind::kValid);
  const bool is_restarted = GENERATE(false, true);
  if (is_restarted) {
    f.Restart();
    f.ConnectCompile("c1", 4);
    f.ConnectGpu("g1", 2);
  }
  f.Idle({"g1", "c1"}, kInterval);
  const EvaluationId running = f.SubmitToRun();
  const LeaseRef lost = f.LeaseOf(running);
  CHECK(f.StageOf(running) == Stage::kPrepare);
  f.Answer("g1", VerdictKind::kRuntimeError);

  CHECK(f.Only<ReportCanaries>().withdrawn == 1);
  CHECK(f.Only<SendCancelLease>().lease == lost);
  CHECK(f.Only<CountRetry>().reason == RetryReason::kWorkerCondemned);
  CHECK(f.StageOf(old) == Stage::kEnded);
  CHECK(f.StageOf(running) == Stage::kQueuedRun);
  CHECK(f.StageOf(told) == Stage::kCompile);
  f.Finish("g1", lost, VerdictReached{VerdictKind::kValid, "late", 9});
  CHECK(f.StageOf(running) == Stage::kQueuedRun);
  request.request = {1'000};
  f.Do(request);
  CHECK(f.Only<AnswerSubmit>().evaluation_id == told);  // its key names it still

  f.FinishCompile("c1", f.LeaseOf(told));
  f.ConnectGpu("g2", 2);
  f.PassRound("g2");
  CHECK(f.StageOf(running) == Stage::kPrepare);
  for (const SendLease& lease : f.All<SendLease>())
    CHECK(std::get<RunGrant>(lease.work).best_speedup == 0);  // what g1 measured does not count
  f.ends.clear();
  f.FinishRun("g2", f.LeaseOf(told), VerdictKind::kIncorrect);
  CHECK(f.EndOf(told) == VerdictKind::kIncorrect);
  CHECK(
      f.FullEndOf(told).earlier_attempts ==
      std::vector<std::string>{"verdict of g1 withdrawn: canary 'wrong': runtime_error instead of "
                               "incorrect"});
  CHECK(f.FullEndOf(told).client_key == "key");
}

TEST_CASE("Canary: a verdict beside a round is vouched for by the next one only",
          "[coordinator][core]") {
  CanaryFleet f;
  f.ConnectGpu("g1", 2);
  f.PassRound("g1");
  f.Idle({"g1", "c1"}, kInterval);
  const EvaluationId beside = f.SubmitToRun();
  f.Pass(Milliseconds(10));
  f.FinishRun("g1", f.LeaseOf(beside));
  f.PassRound("g1");
  f.Idle({"g1", "c1"}, kInterval);
  f.Answer("g1", VerdictKind::kValid, 1);
  CHECK(f.Only<ReportCanaries>().withdrawn == 1);
  CHECK(f.StageOf(beside) == Stage::kCompile);
}

TEST_CASE("Canary: what noise can do condemns at the second time", "[coordinator][core]") {
  CanaryFleet f;
  f.ConnectGpu("g1");
  f.Answer("g1", VerdictKind::kIncorrect);
  SECTION("clocks that disagree, then a good one") {
    f.Answer("g1", VerdictKind::kSuspect);
    CHECK(f.CanaryTold() == "c-good");
    f.Answer("g1", VerdictKind::kValid, 1);
    CHECK(f.Only<ReportCanaries>().outcome == CanaryOutcome::kPassed);
  }
  SECTION("a speedup that cannot be, twice") {
    f.Answer("g1", VerdictKind::kValid, 2.5);
    CHECK(f.CanaryTold() == "c-good");
    f.Answer("g1", VerdictKind::kValid, 0.25);
    CHECK(f.Only<ReportCanaries>().outcome == CanaryOutcome::kMisjudged);
    CHECK(f.View("g1").canary_failure == "canary 'good': a speedup of 0.25, less than 0.5");
  }
  SECTION("but not a good one that is called wrong") {
    f.Answer("g1", VerdictKind::kIncorrect);
    CHECK(f.Only<ReportCanaries>().outcome == CanaryOutcome::kMisjudged);
  }
}

TEST_CASE("Canary: a worker that cannot judge is tried again, and drained without a verdict lost",
          "[coordinator][core]") {
  CoreOptions options = WithCanaries();
  options.retry_delay = Milliseconds(1'000);
  CanaryFleet f(options);
  f.ConnectGpu("g1", 2);
  f.PassRound("g1");
  const EvaluationId id = f.SubmitToRun();
  f.FinishRun("g1", f.LeaseOf(id));
  f.Idle({"g1", "c1"}, kInterval);
  f.FailInfra("g1", f.Canary());
  CHECK(f.CanaryTold().empty());
  f.Idle({"g1", "c1"}, Milliseconds(1'000));
  CHECK(f.CanaryTold() == "c-wrong");
  f.FailInfra("g1", f.Canary());
  f.Idle({"g1", "c1"}, Milliseconds(10'000));
  f.FailInfra("g1", f.Canary());
  CHECK(f.Only<ReportCanaries>().outcome == CanaryOutcome::kUndecided);
  CHECK(f.Only<ReportCanaries>().withdrawn == 0);
  CHECK(f.View("g1").canary_failure == "canary 'wrong': no verdict: disk full");
  CHECK(f.EndOf(id) == VerdictKind::kValid);
  CHECK(f.StageOf(id) == Stage::kEnded);
}

TEST_CASE("Canary: a worker that goes away in a round begins anew when it comes back",
          "[coordinator][core]") {
  CanaryFleet f;
  f.ConnectGpu("g1");
  f.Answer("g1", VerdictKind::kIncorrect);
  f.Disconnect("g1");
  f.Idle({"c1"}, Milliseconds(20'000));
  CHECK(f.All<ReportCanaries>().empty());
  f.ConnectGpu("g1");
  CHECK(f.CanaryTold() == "c-wrong");
  f.PassRound("g1");
  CHECK(!f.View("g1").certificate.empty());
  f.Disconnect("g1");
  f.Idle({"c1"}, kInterval);
  f.ConnectGpu("g1");
  CHECK(f.CanaryTold() == "c-wrong");  // overdue
}

TEST_CASE("Canary: a short first round, then a whole one that gives way to work",
          "[coordinator][core]") {
  CoreOptions options = WithCanaries();
  options.canaries[0].is_in_first_round = false;
  CanaryFleet f(options);
  f.ConnectGpu("g1");
  CHECK(f.CanaryTold() == "c-good");
  const EvaluationId first = f.SubmitToRun();
  const EvaluationId second = f.SubmitToRun();
  f.Answer("g1", VerdictKind::kValid, 1);
  CHECK(f.Only<ReportCanaries>().outcome == CanaryOutcome::kPassed);
  const LeaseRef running = f.LeaseOf(first);
  for (int i = 0; i < 13; ++i) {
    f.Pass(Milliseconds(5'000));
    f.Beat("g1", {running});
    f.Beat("c1");
  }
  f.FinishRun("g1", running);
  CHECK(f.StageOf(second) == Stage::kPrepare);
  f.FinishRun("g1", f.LeaseOf(second));
  CHECK(f.CanaryTold() == "c-wrong");
  f.PassRound("g1");
  CHECK(f.Only<ReportCanaries>().outcome == CanaryOutcome::kPassed);
  f.Idle({"g1", "c1"}, Milliseconds(600'000));
  CHECK(f.CanaryTold().empty());  // the next one comes after the interval

  CHECK(Problems(options).empty());
  options.canaries[1].is_in_first_round = false;
  CHECK(Problems(options) == std::vector<std::string>{"no canary is in the first round"});
}

TEST_CASE("Canary: a round gives way to work for a while only", "[coordinator][core]") {
  CanaryFleet f;
  f.ConnectGpu("g1");
  f.PassRound("g1");
  const EvaluationId running = f.SubmitToRun();
  const EvaluationId waiting = f.SubmitToRun();
  const LeaseRef lease = f.LeaseOf(running);
  for (Milliseconds passed{0}; passed < kInterval + Milliseconds(601'000);
       passed += Milliseconds(5'000)) {
    f.Pass(Milliseconds(5'000));
    f.Beat("g1", {lease});
    f.Beat("c1");
  }
  REQUIRE(f.StageOf(running) == Stage::kPrepare);  // within its deadline
  f.FinishRun("g1", lease);
  CHECK(f.CanaryTold() == "c-wrong");
  CHECK(f.StageOf(waiting) == Stage::kQueuedRun);
}

TEST_CASE("Canary: the verdicts kept are bounded", "[coordinator][core]") {
  CoreOptions options = WithCanaries();
  options.verdicts_kept_max = 2;
  CanaryFleet f(options);
  f.ConnectGpu("g1");
  f.PassRound("g1");
  for (int i = 0; i < 3; ++i)
    f.FinishRun("g1", f.LeaseOf(f.SubmitToRun()));
  f.Idle({"g1", "c1"}, kInterval);
  f.Answer("g1", VerdictKind::kValid, 1);
  CHECK(f.Only<ReportCanaries>().withdrawn == 2);
  CHECK(f.StageOf({1}) == Stage::kEnded);
  CHECK(f.StageOf({2}) == Stage::kCompile);
}

}  // namespace
}  // namespace pike::coordinator
