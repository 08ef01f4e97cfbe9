#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

struct RetryFleet : CoreFixture {
  RetryFleet() : CoreFixture(CoreOptions()) {
    ConnectCompile("c1");
    ConnectGpu("g1");
  }
  void BeatFor(Milliseconds span) {
    for (const MonoTime end = now + span; now < end;) {
      Pass(Milliseconds(1'000));
      Beat("c1");
      Beat("g1");
    }
  }
};

TEST_CASE("Retry: the next attempt waits, and longer after each failure", "[coordinator][core]") {
  RetryFleet f;
  const EvaluationId id = f.Submit();
  f.FailInfra("c1", f.LeaseOf(id));
  CHECK(f.StageOf(id) == Stage::kQueuedCompile);
  CHECK(f.core->FindEvaluation(id)->is_held_back);
  CHECK(f.core->Load().queued_compile == 1);
  f.Pass(f.options.retry_delay - Milliseconds(1));
  CHECK(f.LeaseOf(id).attempt == 1);
  f.Pass(Milliseconds(1));
  CHECK(f.LeaseOf(id).attempt == 2);
  f.FailInfra("c1", f.LeaseOf(id));
  f.BeatFor(10 * f.options.retry_delay - Milliseconds(1'000));
  CHECK(f.LeaseOf(id).attempt == 2);
  f.Pass(Milliseconds(1'000));
  CHECK(f.LeaseOf(id).attempt == 3);
}

TEST_CASE("Retry: what waits for another attempt lets the others pass", "[coordinator][core]") {
  RetryFleet f;
  const EvaluationId first = f.Submit();
  const EvaluationId second = f.Submit();
  CHECK(f.core->FindEvaluation(second)->queue_position == 1);
  f.FailInfra("c1", f.LeaseOf(first));
  CHECK(f.StageOf(second) == Stage::kCompile);
  const EvaluationId third = f.Submit();
  CHECK(f.core->FindEvaluation(third)->queue_position == 1);
  CHECK(f.core->FindEvaluation(first)->queue_position == 2);
  f.Pass(f.options.retry_delay);
  CHECK(f.core->FindEvaluation(first)->queue_position == 1);
}

TEST_CASE("Retry: work that waits for another attempt can be cancelled, restored and given up",
          "[coordinator][core]") {
  RetryFleet f;
  const EvaluationId id = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(id));
  f.FailInfra("g1", f.LeaseOf(id));
  REQUIRE(f.StageOf(id) == Stage::kQueuedRun);
  SECTION("cancelled") {
    f.Cancel(id);
    CHECK(f.EndOf(id) == VerdictKind::kCancelled);
    f.Pass(f.options.retry_delay);
  }
  SECTION("restored: a restart was pause enough") {
    f.Restart();
    f.ConnectGpu("g1");
    CHECK(f.LeaseOf(id).attempt == 2);
  }
  SECTION("given up") {
    f.Disconnect("g1");
    f.Pass(Milliseconds(600'000));
    CHECK(f.EndOf(id) == VerdictKind::kInfraError);
  }
}

TEST_CASE("Retry: a late build waits, too", "[coordinator][core]") {
  RetryFleet f;
  const EvaluationId id = f.Submit();
  f.FinishCompile("c1", f.LeaseOf(id));
  f.Do(BuildRequested{f.Session("g1"), 1, f.LeaseOf(id).lease_id, "sha", "cpu",
                      Milliseconds(30'000)});
  f.FailInfra("c1", f.LeaseOf(EvaluationId()));
  CHECK(f.All<SendLease>().empty());
  CHECK(f.core->Load().builds_waiting == 1);
  f.Pass(f.options.retry_delay);
  CHECK(f.LeaseOf(EvaluationId()).attempt == 2);
}

TEST_CASE("Retry: the wait is bounded", "[coordinator][core]") {
  CoreLimits limits;
  CHECK(RetryDelay(limits, 1) == Milliseconds(1'000));
  CHECK(RetryDelay(limits, 2) == Milliseconds(10'000));
  CHECK(RetryDelay(limits, 3) == limits.retry_delay_max);
  CHECK(RetryDelay(limits, 10) == limits.retry_delay_max);
  limits.retry_delay = Milliseconds(0);
  CHECK(RetryDelay(limits, 10) == Milliseconds(0));
}

}  // namespace
}  // namespace pike::coordinator
