#include <string>
#include <vector>

#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

TEST_CASE("Worker: Hello is answered with the heartbeat interval", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectGpu("g1");
  CHECK(f.Only<SendWelcome>().heartbeat_interval == Milliseconds(1'000));
  CHECK(f.Only<SendWelcome>().revoked_leases.empty());
  CHECK(f.core->IsLiveSession(f.Session("g1")));
  f.Do(WorkerConnected{f.Session("g1"), GpuFacts("g1"), {}});  // repeated
  CHECK(f.said.empty());
}

TEST_CASE("Worker: a Hello that makes no sense is refused", "[coordinator][core]") {
  CoreOptions options;
  options.slots_max = 8;
  options.workers_max = 1;
  CoreFixture f(options);
  WorkerFacts facts = GpuFacts("g1");
  SECTION("no slots") {
    facts.slots = 0;
  }
  SECTION("too many slots") {
    facts.slots = 9;
  }
  SECTION("no class") {
    facts.gpu_class = "";
  }
  SECTION("no architecture") {
    facts.arch = "";
  }
  SECTION("a known id of another kind") {
    f.ConnectGpu("g1");
    facts.kind = WorkerKind::kCompile;
  }
  SECTION("more workers than the bound") {
    f.ConnectGpu("g1");
    facts.worker_id = {"g2"};
  }
  f.Do(WorkerConnected{{"other"}, facts, {}});
  CHECK_FALSE(f.Only<SendRefused>().reason.empty());
  CHECK_FALSE(f.core->IsLiveSession({"other"}));
}

TEST_CASE("Worker: at the bound the one lost the longest ago is forgotten", "[coordinator][core]") {
  CoreOptions options;
  options.workers_max = 2;
  CoreFixture f(options);
  f.ConnectGpu("g1");
  f.ConnectGpu("g2");
  f.Disconnect("g2");
  f.Pass(Milliseconds(5));
  f.Beat("g1");
  f.Disconnect("g1");
  f.ConnectGpu("g3");
  const std::vector<WorkerView> workers = f.core->Workers();
  REQUIRE(workers.size() == 2);
  CHECK(workers[0].worker.worker_id == WorkerId{"g1"});
  CHECK(workers[1].worker.worker_id == WorkerId{"g3"});
}

TEST_CASE("Worker: a second connection replaces the first", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(id));
  const SessionId first = f.Session("g1");
  const LeaseRef lease = f.LeaseOf(id);
  f.ConnectGpu("g1", 1, {lease});
  CHECK(f.Only<CloseSession>().session == first);
  CHECK_FALSE(f.core->IsLiveSession(first));

  SECTION("messages of the first change nothing") {
    f.Do(LeaseResultReceived{first, lease, "", VerdictReached{VerdictKind::kIncorrect, ""}});
    CHECK(f.Only<CloseSession>().session == first);
    CHECK(f.All<SendResultAck>().empty());
    f.Do(WorkerDisconnected{first});
    CHECK(f.core->IsLiveSession(f.Session("g1")));
    f.Do(HeartbeatReceived{first, {}});
    f.Do(StageChanged{first, lease, Stage::kMeasure});
    f.Do(BuildRequested{first, 1, lease.lease_id, "sha", "cpu", Milliseconds(1)});
    f.Do(WorkerDraining{first, "bye"});
    CHECK(f.StageOf(id) == Stage::kPrepare);
  }
  SECTION("a claimed lease goes on") {
    f.FinishRun("g1", lease);
    CHECK(f.EndOf(id) == VerdictKind::kValid);
  }
}

TEST_CASE("Worker: a lease that the worker came back without is retried after a short wait",
          "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(id));
  const LeaseRef lease = f.LeaseOf(id);
  f.Disconnect("g1");
  CHECK(f.StageOf(id) == Stage::kPrepare);  // it may come back
  f.ConnectGpu("g1");
  SECTION("unless its result was on the way") {
    f.FinishRun("g1", lease);
    CHECK(f.EndOf(id) == VerdictKind::kValid);
  }
  SECTION("with the reason") {
    f.Pass(Milliseconds(2'000));
    CHECK(f.Only<CountRetry>().reason == RetryReason::kLeaseNotHeld);
    f.Beat("g1");
    f.Pass(Milliseconds(2'000));
    f.Beat("g1");
    CHECK(f.LeaseOf(id).attempt == 2);
  }
}

TEST_CASE("Worker: a silent session is closed", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectGpu("g1");
  f.Pass(Milliseconds(9'999));
  CHECK(f.core->IsLiveSession(f.Session("g1")));
  f.Pass(Milliseconds(1));
  CHECK(f.Only<CloseSession>().session == f.Session("g1"));
  CHECK(f.core->Workers().front().state == WorkerState::kLost);
}

TEST_CASE("Worker: a draining worker finishes its leases and gets no more", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1", 2);
  const EvaluationId id = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(id));
  SECTION("by request") {
    f.Do(DrainRequested{{7}, {"g1"}, "maintenance"});
    CHECK(f.Only<AnswerDrain>().found);
    CHECK(f.Only<SendDrain>().reason == "maintenance");
  }
  SECTION("by its own wish") {
    f.Do(WorkerDraining{f.Session("g1"), "SIGTERM"});
  }
  SECTION("after a restart of the coordinator") {
    f.Do(DrainRequested{{7}, {"g1"}, "maintenance"});
    f.Restart();
    f.ConnectCompile("c1");
    f.ConnectGpu("g1", 2, {f.LeaseOf(id)});
    CHECK(f.Only<SendDrain>().reason == "maintenance");
  }
  CHECK(f.core->Workers().back().state == WorkerState::kDraining);
  const EvaluationId second = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(second));
  CHECK(f.StageOf(second) == Stage::kQueuedRun);
  f.FinishRun("g1", f.LeaseOf(id));
  CHECK(f.EndOf(id) == VerdictKind::kValid);
  CHECK(f.StageOf(second) == Stage::kQueuedRun);

  f.Do(DrainRequested{{8}, {"nobody"}, ""});
  CHECK_FALSE(f.Only<AnswerDrain>().found);
}

TEST_CASE("Worker: only a live session publishes, and only for its own toolchain",
          "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.Do(ArtifactPublished{{1}, f.Session("c1"), "toolchain-compile"});
  CHECK(f.Only<AnswerPublish>().refusal == Refusal::kNone);
  f.Do(ArtifactPublished{{2}, f.Session("c1"), "other"});
  CHECK(f.Only<AnswerPublish>().refusal == Refusal::kFailedPrecondition);
  f.Disconnect("c1");
  f.Do(ArtifactPublished{{3}, f.Session("c1"), "toolchain-compile"});
  CHECK(f.Only<AnswerPublish>().refusal == Refusal::kPermissionDenied);
}

}  // namespace
}  // namespace pike::coordinator
