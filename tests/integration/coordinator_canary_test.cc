// Canaries as workers and clients see them, with the real store.
#include <string>
#include <vector>

#include "tests/testing/catch.h"
#include "tests/testing/coordinator_client.h"
#include "tests/testing/coordinator_fixture.h"

namespace pike::coordinator {
namespace {

using testing::Contains;

struct CanaryWorker : WelcomedWorker {
  using WelcomedWorker::WelcomedWorker;

  void Answer(const v1::Lease& lease, v1::VerdictKind kind, double speedup = 0) {
    v1::WorkerMessage message;
    v1::LeaseResult* result = message.mutable_lease_result();
    result->set_lease_id(lease.lease_id());
    result->set_attempt(lease.attempt());
    result->mutable_verdict()->set_kind(kind);
    if (speedup > 0)
      result->mutable_verdict()->mutable_measurement()->set_speedup(speedup);
    Send(message);
  }
  // Answers the short first round as a good worker does. `first` is its first lease.
  void PassRound(const v1::Lease& first) {
    Answer(first, v1::VERDICT_KIND_INCORRECT);        // wrong
    Answer(NextLease(), v1::VERDICT_KIND_INCORRECT);  // cheating
    Answer(NextLease(), v1::VERDICT_KIND_VALID, 1);   // good
  }
};

v1::WorkerRecord RecordOf(CoordinatorFixture* fixture, const std::string& worker_id) {
  const auto workers = fixture->client().ListWorkers();
  REQUIRE(workers.ok());
  for (const v1::WorkerRecord& worker : workers->workers()) {
    if (worker.worker_id() == worker_id)
      return worker;
  }
  FAIL("no worker " + worker_id);
  return {};
}

TEST_CASE("Coordinator: canaries are real programs that no list shows", "[coordinator]") {
  CoordinatorFixture fixture({.gpu_classes = {"cpu"}}, /*canary_interval_s=*/3'600);
  CanaryWorker gpu(fixture.target(), GpuHello("gpu-1"));
  const v1::Lease lease = gpu.NextLease();
  CHECK(lease.evaluation_id().empty());
  CHECK(lease.arch() == "cpu");
  CHECK(lease.run().entry_reference() == "Model");
  CHECK(lease.run().policy().timed_ms_max() == 50);
  CHECK(lease.run().best_speedup() > 1e6);
  const auto candidate = fixture.client().ReadBlob(lease.run().candidate_sha256());
  REQUIRE(candidate.ok());
  CHECK_THAT(*candidate, Contains("class ModelNew"));
  const auto task = fixture.client().ReadBlob(lease.run().task_sha256());
  REQUIRE(task.ok());
  CHECK_THAT(*task, Contains("def get_inputs"));
  CHECK(fixture.client().List({})->evaluations().empty());
  CHECK(fixture.client().ListTasks({})->tasks().empty());
  CHECK(fixture.client().GetStatus()->active_evaluations() == 0);
  gpu.PassRound(lease);
  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  const std::string id = fixture.Submit(fixture.GoodRequest()).evaluation_id();
  compiler.SendCompiled(compiler.NextLease());
  const v1::Lease work = gpu.NextLease();
  CHECK(work.evaluation_id() == id);
  gpu.SendVerdict(work, v1::VERDICT_KIND_VALID);
  REQUIRE(fixture.client().Watch(id).ok());
  const v1::WorkerRecord worker = RecordOf(&fixture, "gpu-1");
  CHECK_THAT(worker.certificate(), Contains("gpu-1/1/"));
  CHECK(worker.certified_unix_ms() > 0);
  CHECK(worker.canary_failure().empty());
  CHECK(fixture.client().Get(id)->verdict().evidence().certificate() == worker.certificate());
}

TEST_CASE("Coordinator: a verdict that is withdrawn is active until the next one replaces it",
          "[coordinator]") {
  CoordinatorFixture fixture({.gpu_classes = {"cpu"}}, /*canary_interval_s=*/1);
  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  std::string id;
  {
    CanaryWorker bad(fixture.target(), GpuHello("gpu-1"));
    bad.PassRound(bad.NextLease());
    id = fixture.Submit(fixture.GoodRequest()).evaluation_id();
    compiler.SendCompiled(compiler.NextLease());
    v1::Lease lease = bad.NextLease();
    REQUIRE(lease.evaluation_id() == id);
    bad.Answer(lease, v1::VERDICT_KIND_VALID, 3);
    REQUIRE(fixture.client().Watch(id)->back().verdict().kind() == v1::VERDICT_KIND_VALID);
    // Of its second round.
    bad.Answer(bad.NextLease(), v1::VERDICT_KIND_INCORRECT);
    const v1::Lease again = compiler.NextLease();
    CHECK(again.evaluation_id() == id);
    CHECK(fixture.client().Get(id)->stage() == v1::STAGE_COMPILE);
    CHECK_FALSE(fixture.client().Get(id)->has_verdict());
    const auto listed = fixture.client().List({});
    REQUIRE(listed->evaluations_size() == 1);
    CHECK(listed->evaluations(0).stage() == v1::STAGE_COMPILE);
    CHECK(RecordOf(&fixture, "gpu-1").state() == v1::WORKER_STATE_DRAINING);
    CHECK(RecordOf(&fixture, "gpu-1").canary_failure() ==
          "canary 'slow': incorrect instead of valid");
    compiler.SendCompiled(again);
    REQUIRE(fixture.client()
                .Watch(id,
                       [](const v1::EvaluationRecord& record) {
                         return record.stage() != v1::STAGE_QUEUED_RUN;
                       })
                .ok());
  }
  fixture.Stop();
  fixture.Start();
  CHECK(fixture.client().Get(id)->stage() == v1::STAGE_QUEUED_RUN);
  CanaryWorker good(fixture.target(), GpuHello("gpu-2"));
  good.PassRound(good.NextLease());
  const v1::Lease lease = good.NextLease();
  REQUIRE(lease.evaluation_id() == id);
  CHECK(lease.run().best_speedup() == 0);
  good.SendVerdict(lease, v1::VERDICT_KIND_INCORRECT);
  REQUIRE(fixture.client().Watch(id).ok());
  const auto record = fixture.client().Get(id);
  CHECK(record->verdict().kind() == v1::VERDICT_KIND_INCORRECT);
  CHECK(record->verdict().evidence().worker_id() == "gpu-2");
  REQUIRE(record->verdict().evidence().earlier_attempts_size() == 1);
  CHECK(record->verdict().evidence().earlier_attempts(0) ==
        "verdict of gpu-1 withdrawn: canary 'slow': incorrect instead of valid");
  CHECK(fixture.client().List({})->evaluations_size() == 1);
}

}  // namespace
}  // namespace pike::coordinator
