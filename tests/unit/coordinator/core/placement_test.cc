#include <string>
#include <vector>

#include "coordinator/core/placement_policy.h"
#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

// Workers of two runtimes and two classes, all connected.
Workers Fleet() {
  Workers fleet;
  const auto add = [&](WorkerFacts facts, const std::string& runtime, uint32_t slots) {
    facts.runtime_digest = runtime;
    facts.slots = slots;
    WorkerEntry& worker = fleet[facts.worker_id];
    worker.facts = facts;
    worker.session = SessionId{facts.worker_id.value};
  };
  add(CompileFacts("c-old"), "old", 1);
  add(CompileFacts("c-new"), "new", 2);
  add(GpuFacts("g-old"), "old", 1);
  add(GpuFacts("g-new"), "new", 2);
  fleet[{"g-new"}].facts.gpu_class = "NVIDIA H200";
  fleet[{"g-new"}].facts.arch = "sm_90a";
  return fleet;
}

TEST_CASE("Placement: a compile is for the runtime and architecture of a GPU worker of the class",
          "[coordinator][core]") {
  Workers fleet = Fleet();
  using Targets = std::vector<BuildTarget>;
  CHECK(CompileTargets(fleet, {}) == Targets{{"new", "sm_90a"}, {"old", "cpu"}});
  CHECK(CompileTargets(fleet, {"cpu", ""}) == Targets{{"old", "cpu"}});
  CHECK(CompileTargets(fleet, {"", "new"}) == Targets{{"new", "sm_90a"}});
  CHECK(CompileTargets(fleet, {"NVIDIA B200", ""}).empty());
  SECTION("a busy one comes after a free one") {
    fleet[{"g-new"}].leases = 2;
    CHECK(CompileTargets(fleet, {}).front() == BuildTarget{"old", "cpu"});
  }
  SECTION("a lost one counts only if none is there") {
    fleet[{"g-new"}].session.reset();
    CHECK(CompileTargets(fleet, {}) == Targets{{"old", "cpu"}});
    CHECK(CompileTargets(fleet, {"NVIDIA H200", ""}) == Targets{{"new", "sm_90a"}});
  }
}

TEST_CASE("Placement: the worker with most free slots, and another one after a failure",
          "[coordinator][core]") {
  Workers fleet = Fleet();
  fleet[{"g-new2"}] = fleet[{"g-new"}];
  fleet[{"g-new2"}].facts.worker_id = {"g-new2"};
  const BuildTarget target{"new", "sm_90a"};
  const auto pick = [&](const std::string& avoid) {
    const WorkerEntry* worker = PickRunWorker(fleet, {}, target, {avoid});
    return worker == nullptr ? "" : worker->facts.worker_id.value;
  };
  CHECK(pick("") == "g-new");
  CHECK(pick("g-new") == "g-new2");
  fleet[{"g-new"}].leases = 1;
  CHECK(pick("") == "g-new2");
  fleet[{"g-new2"}].drain_reason = "bye";
  CHECK(pick("g-new") == "g-new");
  fleet[{"g-new"}].stopping[{{1, 1}, 1}] = {};
  CHECK(pick("") == "");
}

TEST_CASE("Placement: a worker without a compiler builds nothing", "[coordinator][core]") {
  WorkerFacts facts = CompileFacts("c1");
  CHECK(CanCompileFor(facts, "runtime-1"));
  CHECK_FALSE(CanCompileFor(facts, "runtime-2"));
  facts.can_build = false;
  CHECK_FALSE(CanCompileFor(facts, "runtime-1"));
  CHECK_FALSE(CanCompileFor(GpuFacts("g1"), "runtime-1"));
}

TEST_CASE("Scheduler: principals take turns", "[coordinator][core]") {
  CoreOptions options;
  options.gpu_classes = {"cpu"};
  CoreFixture f(options);
  for (int i = 0; i < 4; ++i)
    f.SubmitFor("ann");
  const EvaluationId bob = f.SubmitFor("bob");
  CHECK(f.Only<NotifyStage>().queue_position == 2);
  const EvaluationId eve = f.SubmitFor("eve");
  CHECK(f.Only<NotifyStage>().queue_position == 3);
  f.ConnectGpu("g1");
  f.ConnectCompile("c1", 3);
  CHECK(f.core->Load().leases_compile == 3);
  CHECK(f.StageOf({1}) == Stage::kCompile);
  CHECK(f.StageOf(bob) == Stage::kCompile);
  CHECK(f.StageOf(eve) == Stage::kCompile);
}

TEST_CASE("Scheduler: a retried evaluation keeps its place", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId first = f.Submit();
  const EvaluationId second = f.Submit();
  f.FailInfra("c1", f.LeaseOf(first));
  CHECK(f.StageOf(first) == Stage::kCompile);
  CHECK(f.StageOf(second) == Stage::kQueuedCompile);
}

TEST_CASE("Scheduler: work that cannot be placed does not hold up work that can",
          "[coordinator][core]") {
  CoreOptions options;
  options.gpu_classes = {"cpu", "NVIDIA H200"};
  CoreFixture f(options);
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  EvaluationSubmitted request = f.Request();
  request.demand.gpu_class = "NVIDIA H200";
  f.Do(request);
  const EvaluationId elsewhere = f.Only<AnswerSubmit>().evaluation_id;
  const EvaluationId here = f.Submit();
  CHECK(f.StageOf(elsewhere) == Stage::kQueuedCompile);
  CHECK(f.StageOf(here) == Stage::kCompile);
}

TEST_CASE("Scheduler: compiles wait while the run stage is full", "[coordinator][core]") {
  CoreOptions options;
  options.queue_run_max = 2;
  CoreFixture f(options);
  f.ConnectCompile("c1", 8);
  f.ConnectGpu("g1");
  std::vector<EvaluationId> ids;
  for (int i = 0; i < 4; ++i)
    ids.push_back(f.Submit());
  CHECK(f.core->Load().leases_compile == 2);
  f.FinishCompile("c1", f.LeaseOf(ids[0]));
  f.FinishCompile("c1", f.LeaseOf(ids[1]));
  CHECK(f.StageOf(ids[1]) == Stage::kQueuedRun);
  CHECK(f.core->Load().leases_compile == 0);
  f.FinishRun("g1", f.LeaseOf(ids[0]));
  CHECK(f.StageOf(ids[1]) == Stage::kPrepare);
  CHECK(f.core->Load().leases_compile == 1);
}

TEST_CASE("Scheduler: a run goes only to a worker that the builds fit", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  f.Disconnect("g1");
  WorkerFacts other = GpuFacts("g2");
  other.runtime_digest = "runtime-2";
  f.Connect(other);
  f.FinishCompile("c1", f.LeaseOf(id));
  CHECK(f.StageOf(id) == Stage::kQueuedRun);
  f.ConnectGpu("g3");
  CHECK(f.StageOf(id) == Stage::kPrepare);
}

}  // namespace
}  // namespace pike::coordinator
