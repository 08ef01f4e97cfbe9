#include <string>
#include <vector>

#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

struct RestartFleet : CoreFixture {
  RestartFleet() {
    ConnectCompile("c1");
    ConnectGpu("g1");
  }
};

TEST_CASE("Restart: every live evaluation is told again, and ids are never used twice",
          "[coordinator][core]") {
  RestartFleet f;
  const EvaluationId first = f.Submit();
  const EvaluationId second = f.Submit();
  f.Cancel(second);
  const LeaseRef lease = f.LeaseOf(first);
  f.Restart();
  CHECK(f.Only<NotifyStage>().evaluation_id == first);
  f.ConnectCompile("c1", 1, {lease});
  const EvaluationId third = f.Submit();
  CHECK(third > second);
  f.FinishCompile("c1", lease);
  CHECK(f.LeaseOf(third).lease_id > lease.lease_id);
  CHECK(f.LeaseOf(third).lease_id.epoch == 2);
}

TEST_CASE("Restart: a lease in the log waits for its worker to claim it", "[coordinator][core]") {
  RestartFleet f;
  const EvaluationId id = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(id));
  const LeaseRef lease = f.LeaseOf(id);
  f.Restart(Milliseconds(60'000));
  CHECK(f.StageOf(id) == Stage::kPrepare);
  SECTION("claimed") {
    f.Pass(Milliseconds(9'000));
    f.ConnectGpu("g1", 1, {lease});
    CHECK(f.Only<SendWelcome>().revoked_leases.empty());
    f.Pass(Milliseconds(9'000));
    f.FinishRun("g1", lease);
    CHECK(f.EndOf(id) == VerdictKind::kValid);
    CHECK(f.FullEndOf(id).compile_times_payload == "times of c1");
  }
  SECTION("not claimed") {
    f.Pass(Milliseconds(10'000));
    CHECK(f.Only<CountRetry>().reason == RetryReason::kWorkerLost);
    CHECK(f.StageOf(id) == Stage::kQueuedRun);
    f.ConnectGpu("g2");
    CHECK(f.LeaseOf(id).attempt == 2);
  }
  SECTION("claimed by somebody else") {
    f.ConnectGpu("g2", 1, {lease});
    CHECK(f.Only<SendWelcome>().revoked_leases == std::vector<LeaseId>{lease.lease_id});
    f.FinishRun("g2", lease, VerdictKind::kIncorrect);
    CHECK(f.EndOf(id) == std::nullopt);
  }
}

TEST_CASE("Restart: time that the coordinator was down ends nothing", "[coordinator][core]") {
  CoreOptions options;
  options.gpu_classes = {"cpu"};
  CoreFixture f(options);
  const EvaluationId id = f.Submit();
  f.Pass(Milliseconds(200'000));
  f.Restart(Milliseconds(3'600'000));
  f.Pass(Milliseconds(599'999));
  CHECK(f.StageOf(id) == Stage::kQueuedCompile);
  f.Pass(Milliseconds(1));
  CHECK(f.EndOf(id) == VerdictKind::kInfraError);
  CHECK(f.FullEndOf(id).queued_compile == Milliseconds(200'000 + 3'600'000 + 600'000));
}

TEST_CASE("Restart: a wall clock that was set back does no harm", "[coordinator][core]") {
  CoreOptions options;
  options.gpu_classes = {"cpu"};
  CoreFixture f(options);
  const EvaluationId id = f.Submit();
  f.Restart(Milliseconds(-3'600'000));
  CHECK(f.StageOf(id) == Stage::kQueuedCompile);
  f.Pass(Milliseconds(600'000));
  CHECK(f.EndOf(id) == VerdictKind::kInfraError);
}

TEST_CASE("Restart: known workers still count for admission", "[coordinator][core]") {
  RestartFleet f;
  f.Restart();
  f.Submit();
  f.Pass(f.options.worker_memory);
  f.Do(f.Request());
  CHECK(f.Only<AnswerSubmit>().refusal == Refusal::kFailedPrecondition);
}

TEST_CASE("Restart: a build lease of the last life is revoked", "[coordinator][core]") {
  RestartFleet f;
  const EvaluationId id = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(id));
  f.Do(BuildRequested{f.Session("g1"), 1, f.LeaseOf(id).lease_id, "sha", "cpu", Milliseconds(1)});
  const LeaseRef build = f.LeaseOf(EvaluationId());
  f.Restart();
  f.ConnectCompile("c1", 1, {build});
  CHECK(f.Only<SendWelcome>().revoked_leases == std::vector<LeaseId>{build.lease_id});
}

TEST_CASE("Restart: attempts and their reasons survive", "[coordinator][core]") {
  RestartFleet f;
  const EvaluationId id = f.Submit();
  f.FailInfra("c1", f.LeaseOf(id));
  f.FailInfra("c1", f.LeaseOf(id));
  f.log = f.core->Snapshot();
  f.Restart();
  f.ConnectCompile("c1", 1, {f.LeaseOf(id)});
  f.FailInfra("c1", f.LeaseOf(id));
  CHECK(f.EndOf(id) == VerdictKind::kInfraError);
  CHECK(f.FullEndOf(id).earlier_attempts.size() == 2);
}

}  // namespace
}  // namespace pike::coordinator
