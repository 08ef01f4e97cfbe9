#include <string>
#include <vector>

#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

// One evaluation that runs on g1; c2 and g2 are free.
struct Running : CoreFixture {
  Running() {
    ConnectCompile("c1");
    ConnectGpu("g1");
    id = Submit();
    FinishCompile("c1", LeaseOf(id));
    lease = LeaseOf(id);
  }
  void BeatAll(Milliseconds span) {
    const MonoTime end = now + span;
    while (now < end) {
      Pass(Milliseconds(1'000));
      Beat("c1");
      Beat("g1", {lease});
    }
  }
  EvaluationId id;
  LeaseRef lease;
};

TEST_CASE("Lease: heartbeats that name it keep it alive", "[coordinator][core]") {
  Running f;
  f.BeatAll(Milliseconds(60'000));
  CHECK(f.StageOf(f.id) == Stage::kPrepare);
  CHECK(f.LeaseOf(f.id) == f.lease);
}

TEST_CASE("Lease: a silent worker loses it, and another worker gets the next attempt",
          "[coordinator][core]") {
  Running f;
  f.ConnectGpu("g2");
  for (int second = 0; second < 10; ++second) {
    f.Pass(Milliseconds(1'000));
    f.Beat("g2");
  }
  CHECK(f.LeaseOf(f.id).attempt == 2);
  CHECK(f.core->FindEvaluation(f.id)->attempt == 2);
  const std::vector<WorkerView> workers = f.core->Workers();
  CHECK(workers[1].worker.worker_id == WorkerId{"g1"});
  CHECK(workers[1].state == WorkerState::kLost);

  SECTION("a late result of the first attempt is acknowledged and dropped") {
    f.ConnectGpu("g1", 1, {f.lease});
    CHECK(f.Only<SendWelcome>().revoked_leases == std::vector<LeaseId>{f.lease.lease_id});
    f.FinishRun("g1", f.lease, VerdictKind::kIncorrect);
    CHECK(f.Only<SendResultAck>().lease == f.lease);
    CHECK(f.EndOf(f.id) == std::nullopt);
    f.FinishRun("g2", f.LeaseOf(f.id), VerdictKind::kValid);
    CHECK(f.EndOf(f.id) == VerdictKind::kValid);
    CHECK(f.FullEndOf(f.id).earlier_attempts ==
          std::vector<std::string>{
              "prepare attempt 1 at g1: worker_lost: nothing heard of the lease for 10000 ms"});
  }
  SECTION("somebody else's result for the lease is dropped") {
    f.ConnectGpu("g3");
    f.FinishRun("g3", f.LeaseOf(f.id), VerdictKind::kIncorrect);
    CHECK(f.EndOf(f.id) == std::nullopt);
  }
  SECTION("a result with another attempt number is dropped") {
    LeaseRef wrong = f.LeaseOf(f.id);
    wrong.attempt = 1;
    f.FinishRun("g2", wrong, VerdictKind::kIncorrect);
    CHECK(f.EndOf(f.id) == std::nullopt);
  }
}

TEST_CASE("Lease: a lease that never reached a living worker is lost too", "[coordinator][core]") {
  Running f;
  for (int second = 0; second < 10; ++second) {
    f.Pass(Milliseconds(1'000));
    f.Beat("g1");
  }
  CHECK(f.StageOf(f.id) == Stage::kQueuedRun);  // until the slot is known to be free
  f.Pass(Milliseconds(2'000));
  f.Beat("g1");
  CHECK(f.LeaseOf(f.id).attempt == 2);
}

TEST_CASE("Lease: attempts are bounded and their reasons are reported", "[coordinator][core]") {
  Running f;
  f.FailInfra("g1", f.LeaseOf(f.id));
  CHECK(f.Only<CountRetry>().reason == RetryReason::kInfraFailure);
  f.FailInfra("g1", f.LeaseOf(f.id));
  CHECK(f.LeaseOf(f.id).attempt == 3);
  f.FailInfra("g1", f.LeaseOf(f.id));
  CHECK(f.EndOf(f.id) == VerdictKind::kInfraError);
  const EndEvaluation end = f.FullEndOf(f.id);
  CHECK(end.attempt == 3);
  CHECK(end.earlier_attempts.size() == 2);
  CHECK(std::get<CoreVerdict>(end.verdict).reason ==
        "no verdict after 3 attempts; the last: prepare attempt 3 at g1: infra_failure: disk full");
}

TEST_CASE("Lease: each stage has its own attempts", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  f.FailInfra("c1", f.LeaseOf(id));
  f.FailInfra("c1", f.LeaseOf(id));
  f.FinishCompile("c1", f.LeaseOf(id));
  CHECK(f.LeaseOf(id).attempt == 1);
  f.FailInfra("g1", f.LeaseOf(id));
  f.FailInfra("g1", f.LeaseOf(id));
  f.FinishRun("g1", f.LeaseOf(id));
  CHECK(f.EndOf(id) == VerdictKind::kValid);
  CHECK(f.FullEndOf(id).earlier_attempts.size() == 4);
}

TEST_CASE("Lease: a failure that no retry can help ends the evaluation at once",
          "[coordinator][core]") {
  Running f;
  f.Finish("g1", f.lease, InfraFailed{"the reference raised", false, Blame::kTask});
  CHECK(f.EndOf(f.id) == VerdictKind::kInfraError);
  CHECK(std::get<CoreVerdict>(f.FullEndOf(f.id).verdict).blame == Blame::kTask);
  CHECK(f.FullEndOf(f.id).attempt == 1);
}

TEST_CASE("Lease: an outcome of another kind of work is a failed attempt", "[coordinator][core]") {
  Running f;
  const LeaseOutcome outcome =
      GENERATE(LeaseOutcome(CompileFinished{}), LeaseOutcome(BuildFinished{}),
               LeaseOutcome(VerdictReached{VerdictKind::kCancelled, ""}));
  f.Finish("g1", f.lease, outcome);
  CHECK(f.Only<CountRetry>().reason == RetryReason::kMalformedResult);
  CHECK(f.LeaseOf(f.id).attempt == 2);
}

TEST_CASE("Lease: past its hard deadline it is cancelled at a living worker and retried",
          "[coordinator][core]") {
  CoreOptions options;
  options.lease_slack = Milliseconds(0);
  options.retry_delay = Milliseconds(0);
  CoreFixture f(options);
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  const LeaseRef lease = f.LeaseOf(id);
  CHECK(f.Only<SendLease>().deadline == Milliseconds(300'000));
  const MonoTime end = f.now + Milliseconds(309'000);
  while (f.now < end) {
    f.Pass(Milliseconds(1'000));
    f.Beat("c1", {lease});
  }
  CHECK(f.LeaseOf(id) == lease);
  f.Pass(Milliseconds(1'000));
  CHECK(f.Only<SendCancelLease>().lease == lease);
  CHECK(f.Only<CountRetry>().reason == RetryReason::kDeadlinePassed);
  CHECK(f.LeaseOf(id) == lease);  // the slot is not free before the worker says so
  f.Beat("c1");
  CHECK(f.LeaseOf(id).attempt == 2);
}

TEST_CASE("Lease: a revoked lease keeps its slot until the worker lets go of it",
          "[coordinator][core]") {
  Running f;
  const EvaluationId second = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(second));
  f.Beat("g1", {f.lease});
  f.Cancel(f.id);
  CHECK(f.StageOf(second) == Stage::kQueuedRun);
  SECTION("by a heartbeat that no longer names it") {
    f.Beat("g1", {f.lease});
    CHECK(f.StageOf(second) == Stage::kQueuedRun);
    f.Beat("g1");
    CHECK(f.StageOf(second) == Stage::kPrepare);
  }
  SECTION("by a late result") {
    f.FinishRun("g1", f.lease);
    CHECK(f.StageOf(second) == Stage::kPrepare);
  }
  SECTION("by coming back without it") {
    f.ConnectGpu("g1", 1, {});
    CHECK(f.StageOf(second) == Stage::kPrepare);
  }
  SECTION("not by coming back with it") {
    f.ConnectGpu("g1", 1, {f.lease});
    CHECK(f.StageOf(second) == Stage::kQueuedRun);
    f.Beat("g1");
    CHECK(f.StageOf(second) == Stage::kPrepare);
  }
}

TEST_CASE("Lease: a heartbeat that crossed with a lease does not free the slot of its cancellation",
          "[coordinator][core]") {
  Running f;
  const EvaluationId second = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(second));
  f.Cancel(f.id);
  f.Beat("g1");  // sent before the lease arrived
  CHECK(f.StageOf(second) == Stage::kQueuedRun);
  f.Pass(Milliseconds(2'000));
  f.Beat("g1");
  CHECK(f.StageOf(second) == Stage::kPrepare);
}

TEST_CASE("Lease: a heartbeat that names somebody else's lease has it cancelled",
          "[coordinator][core]") {
  Running f;
  f.ConnectGpu("g2");
  f.Beat("g2", {f.lease});
  CHECK(f.Only<SendCancelLease>().session == f.Session("g2"));
  f.FinishRun("g1", f.lease);
  CHECK(f.EndOf(f.id) == VerdictKind::kValid);
  f.Beat("g1", {f.lease});  // crossed with the acknowledgement
  CHECK(f.said.empty());
}

}  // namespace
}  // namespace pike::coordinator
