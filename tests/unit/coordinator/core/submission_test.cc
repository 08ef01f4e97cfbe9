#include <string>

#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

TEST_CASE("Submission: an evaluation runs from submission to its verdict", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  CHECK(f.StageOf(id) == Stage::kCompile);
  const SendLease compile = f.Only<SendLease>();
  CHECK(compile.session == f.Session("c1"));
  CHECK(compile.arch == "cpu");
  CHECK(std::get<CompileGrant>(compile.work).payload == "payload");

  f.FinishCompile("c1", compile.lease);
  CHECK(f.Only<SendResultAck>().lease == compile.lease);
  CHECK(f.StageOf(id) == Stage::kPrepare);
  const SendLease run = f.Only<SendLease>();
  CHECK(run.session == f.Session("g1"));
  CHECK(run.lease.attempt == 1);
  CHECK(std::get<RunGrant>(run.work).builds_payload == "builds");
  CHECK(std::get<RunGrant>(run.work).runtime_digest == "runtime-1");

  f.Do(StageChanged{f.Session("g1"), run.lease, Stage::kVerify});
  CHECK(f.Only<NotifyStage>().stage == Stage::kVerify);
  f.Do(StageChanged{f.Session("g1"), run.lease, Stage::kPrepare});
  CHECK(f.All<NotifyStage>().empty());

  f.Pass(Milliseconds(50));
  f.FinishRun("g1", run.lease);
  const EndEvaluation end = f.Only<EndEvaluation>();
  CHECK(end.evaluation_id == id);
  CHECK(std::get<WorkerVerdict>(end.verdict).payload == "verdict");
  CHECK(std::get<WorkerVerdict>(end.verdict).worker_id == WorkerId{"g1"});
  CHECK(end.compile_times_payload == "times of c1");
  CHECK(end.run_times_payload == "times of g1");
  CHECK(end.builds_payload == "builds");
  CHECK(end.ended_unix_ms == end.submitted_unix_ms + 50);
  CHECK(f.core->Load().active_evaluations == 0);
}

TEST_CASE("Submission: a compile worker may decide only what no GPU could change",
          "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  SECTION("unparsable is final") {
    f.FinishRun("c1", f.LeaseOf(id), VerdictKind::kUnparsable);
    CHECK(f.EndOf(id) == VerdictKind::kUnparsable);
    CHECK(f.FullEndOf(id).compile_times_payload == "times of c1");
  }
  SECTION("a failed, slow or greedy build is final") {
    const VerdictKind kind =
        GENERATE(VerdictKind::kLoadError, VerdictKind::kTimeout, VerdictKind::kOutOfMemory);
    f.FinishRun("c1", f.LeaseOf(id), kind);
    CHECK(f.EndOf(id) == kind);
  }
  SECTION("anything else is a failed attempt") {
    const VerdictKind kind =
        GENERATE(VerdictKind::kValid, VerdictKind::kRuntimeError, VerdictKind::kInfraError);
    f.FinishRun("c1", f.LeaseOf(id), kind);
    CHECK(f.EndOf(id) == std::nullopt);
    CHECK(f.Only<CountRetry>().reason == RetryReason::kMalformedResult);
    CHECK(f.LeaseOf(id).attempt == 2);
  }
}

TEST_CASE("Submission: a client key names one evaluation of one principal", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  f.Do(f.Request("ann", "key"));
  const EvaluationId id = f.Only<AnswerSubmit>().evaluation_id;

  SECTION("the same request is answered with the first evaluation, before and after its end") {
    f.Do(f.Request("ann", "key"));
    CHECK(f.Only<AnswerSubmit>().outcome == SubmitOutcome::kRepeated);
    CHECK(f.Only<AnswerSubmit>().evaluation_id == id);
    CHECK(f.All<AppendRecord>().empty());
    f.Cancel(id);
    f.Restart();
    f.Do(f.Request("ann", "key"));
    CHECK(f.Only<AnswerSubmit>().outcome == SubmitOutcome::kRepeated);
    CHECK(f.Only<AnswerSubmit>().evaluation_id == id);
  }
  SECTION("another request is refused") {
    EvaluationSubmitted other = f.Request("ann", "key");
    other.request_digest = "other";
    f.Do(other);
    CHECK(f.Only<AnswerSubmit>().refusal == Refusal::kAlreadyExists);
  }
  SECTION("another principal's key is another key") {
    f.Do(f.Request("bob", "key"));
    CHECK(f.Only<AnswerSubmit>().outcome == SubmitOutcome::kAccepted);
  }
  SECTION("no key, no promise") {
    f.Do(f.Request("ann", ""));
    f.Do(f.Request("ann", ""));
    CHECK(f.Only<AnswerSubmit>().outcome == SubmitOutcome::kAccepted);
  }
}

TEST_CASE("Submission: keys of ended evaluations are kept up to a bound, oldest end out first",
          "[coordinator][core]") {
  CoreOptions options;
  options.client_keys_max = 2;
  CoreFixture f(options);
  f.ConnectGpu("g1");
  f.ConnectCompile("c1");
  for (const std::string key : {"1", "2", "3"}) {
    f.Do(f.Request("ann", key));
    f.Cancel(f.Only<AnswerSubmit>().evaluation_id);
  }
  f.Do(f.Request("ann", "1"));
  CHECK(f.Only<AnswerSubmit>().outcome == SubmitOutcome::kAccepted);
  f.Do(f.Request("ann", "3"));
  CHECK(f.Only<AnswerSubmit>().outcome == SubmitOutcome::kRepeated);
}

TEST_CASE("Submission: work that nobody can do is refused with the reason", "[coordinator][core]") {
  CoreFixture f;
  const auto refusal = [&](const Demand& demand) {
    EvaluationSubmitted request = f.Request();
    request.demand = demand;
    f.Do(request);
    const AnswerSubmit answer = f.Only<AnswerSubmit>();
    return answer.refusal == Refusal::kFailedPrecondition ? answer.message : "not refused";
  };
  CHECK(refusal({}) == "no GPU worker was connected in the last ten minutes");
  f.ConnectGpu("g1");
  CHECK(refusal({}) ==
        "no compile worker of the last ten minutes has the GPU workers' runtime "
        "runtime-1");
  f.ConnectCompile("c1");
  CHECK(refusal({"NVIDIA H200", ""}) ==
        "no GPU worker of the last ten minutes has class 'NVIDIA H200'; there is: cpu");
  CHECK(refusal({"cpu", "other"}) == "no GPU worker of the last ten minutes has toolchain other");
  CHECK(refusal({"cpu", "toolchain-gpu"}) == "not refused");
  CHECK(refusal({"", "runtime-1"}) == "not refused");
}

TEST_CASE("Submission: a worker counts for ten minutes after it was lost", "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  f.Disconnect("g1");
  f.Disconnect("c1");
  f.Pass(f.options.worker_memory - Milliseconds(1));
  f.Do(f.Request());
  CHECK(f.Only<AnswerSubmit>().outcome == SubmitOutcome::kAccepted);
  f.Pass(Milliseconds(1));
  f.Do(f.Request());
  CHECK(f.Only<AnswerSubmit>().refusal == Refusal::kFailedPrecondition);
  CHECK(f.core->Workers().empty());
}

TEST_CASE("Submission: work for a configured class waits for its workers", "[coordinator][core]") {
  CoreOptions options;
  options.gpu_classes = {"cpu"};
  CoreFixture f(options);
  const EvaluationId id = f.Submit();
  CHECK(f.StageOf(id) == Stage::kQueuedCompile);

  SECTION("until they come") {
    f.ConnectCompile("c1");
    CHECK(f.StageOf(id) == Stage::kQueuedCompile);
    f.ConnectGpu("g1");
    CHECK(f.StageOf(id) == Stage::kCompile);
  }
  SECTION("or until the queue's deadline") {
    f.Pass(Milliseconds(600'000));
    CHECK(f.EndOf(id) == VerdictKind::kInfraError);
    const auto verdict = std::get<CoreVerdict>(f.FullEndOf(id).verdict);
    CHECK(verdict.reason == "no worker: no GPU worker to compile for was connected for 600000 ms");
    CHECK(verdict.blame == Blame::kInfrastructure);
    CHECK(f.FullEndOf(id).queued_compile == Milliseconds(600'000));
  }
}

TEST_CASE("Submission: a full queue refuses and takes no memory", "[coordinator][core]") {
  CoreOptions options;
  options.gpu_classes = {"cpu"};
  options.queue_compile_max = 3;
  options.evaluations_per_principal_max = 2;
  CoreFixture f(options);
  f.SubmitFor("ann");
  f.SubmitFor("ann");
  f.Do(f.Request("ann"));
  CHECK(f.Only<AnswerSubmit>().refusal == Refusal::kResourceExhausted);
  CHECK(f.Only<AnswerSubmit>().message ==
        "you have 2 evaluations that have not ended; retry later");
  const EvaluationId bobs = f.SubmitFor("bob");
  f.Do(f.Request("eve"));
  CHECK(f.Only<AnswerSubmit>().message == "the compile queue is full (3); retry later");
  CHECK(f.core->Load().active_evaluations == 3);
  f.Cancel(bobs);
  f.SubmitFor("eve");
}

TEST_CASE("Submission: a cancelled evaluation ends as cancelled from every stage",
          "[coordinator][core]") {
  CoreFixture f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  const EvaluationId id = f.Submit();
  SECTION("while it compiles") {
    const LeaseRef lease = f.LeaseOf(id);
    f.Cancel(id);
    CHECK(f.Only<SendCancelLease>().lease == lease);
    f.FinishCompile("c1", lease);  // late
    CHECK(f.Only<SendResultAck>().lease == lease);
    CHECK(f.All<AppendRecord>().empty());
  }
  SECTION("while it runs") {
    f.FinishCompile("c1", f.LeaseOf(id));
    const LeaseRef lease = f.LeaseOf(id);
    f.Cancel(id);
    CHECK(f.Only<SendCancelLease>().session == f.Session("g1"));
    f.FinishRun("g1", lease);  // late
    CHECK(f.Only<SendResultAck>().lease == lease);
  }
  SECTION("while it waits") {
    const EvaluationId second = f.Submit();
    f.Cancel(second);
    CHECK(f.All<SendCancelLease>().empty());
    CHECK(f.EndOf(second) == VerdictKind::kCancelled);
    f.Cancel(id);
  }
  CHECK(f.EndOf(id) == VerdictKind::kCancelled);
  CHECK(std::get<CoreVerdict>(f.FullEndOf(id).verdict).blame == Blame::kNobody);

  f.Cancel(id);
  CHECK_FALSE(f.Only<AnswerCancel>().was_active);
  CHECK(f.All<EndEvaluation>().empty());
}

}  // namespace
}  // namespace pike::coordinator
