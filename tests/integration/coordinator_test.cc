// A real server and a real store; workers say what the test says.
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "coordinator/server/server.h"
#include "tests/testing/catch.h"
#include "tests/testing/coordinator_client.h"
#include "tests/testing/coordinator_fixture.h"

namespace pike::coordinator {
namespace {

using testing::Contains;

std::string CodeAndMessage(const absl::Status& status) {
  return absl::StatusCodeToString(status.code()) + ": " + std::string(status.message());
}

TEST_CASE("Coordinator: a candidate goes through both workers to a verdict that is watched",
          "[coordinator]") {
  CoordinatorFixture fixture;
  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  WelcomedWorker gpu(fixture.target(), GpuHello("gpu-1"));
  v1::SubmitRequest request = fixture.GoodRequest();
  request.mutable_policy()->set_timed_calls_max(7);
  const v1::EvaluationRecord accepted = fixture.Submit(request);
  CHECK(accepted.principal() == "local");
  CHECK(accepted.task_name() == "level1/1_square");
  CHECK(accepted.policy().timed_calls_max() == 7);
  CHECK(accepted.policy().correctness_trials() == 5);

  const v1::Lease compile = compiler.NextLease();
  CHECK(compile.evaluation_id() == accepted.evaluation_id());
  CHECK(compile.compile().candidate_sha256() == Sha256Hex("class ModelNew: pass"));
  CHECK(compile.arch() == "cpu");
  CHECK(fixture.client().ReadBlob(compile.compile().candidate_sha256()).value() ==
        "class ModelNew: pass");
  compiler.SendCompiled(compile);

  const v1::Lease run = gpu.NextLease();
  CHECK(run.run().task_version() == request.task_version());
  CHECK(fixture.client().ReadBlob(run.run().task_sha256()).value() == "class Model: pass");
  REQUIRE(run.run().artifacts_size() == 1);
  CHECK(run.run().artifacts(0).artifact_sha256() == Sha256Hex("artifact"));
  CHECK(run.run().toolchain_digest() == Sha256Hex("toolchain"));
  CHECK(run.run().policy().timed_calls_max() == 7);
  v1::WorkerMessage moved;
  moved.mutable_stage_change()->set_lease_id(run.lease_id());
  moved.mutable_stage_change()->set_attempt(run.attempt());
  moved.mutable_stage_change()->set_stage(v1::STAGE_VERIFY);
  gpu.Send(moved);
  gpu.SendVerdict(run, v1::VERDICT_KIND_VALID);
  const v1::CoordinatorMessage ack = gpu.ReadAny();
  CHECK(ack.result_ack().lease_id() == run.lease_id());

  const auto shown = fixture.client().Watch(accepted.evaluation_id());
  REQUIRE(shown.ok());
  REQUIRE_FALSE(shown->empty());
  const v1::EvaluationRecord& ended = shown->back();
  CHECK(ended.verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(ended.verdict().evidence().worker_id() == "gpu-1");
  CHECK(ended.verdict().builds_size() == 1);
  CHECK(ended.times().compile_ms() == 12);
  CHECK(ended.times().measure_ms() == 34);
  CHECK(ended.ended_unix_ms() >= ended.submitted_unix_ms());
  const auto got = fixture.client().Get(accepted.evaluation_id());
  REQUIRE(got.ok());
  CHECK(got->SerializeAsString() == ended.SerializeAsString());
  const auto status = fixture.client().GetStatus();
  REQUIRE(status.ok());
  CHECK(status->ended_evaluations() == 1);
  CHECK(status->version() == "0.1.0");
}

TEST_CASE("Coordinator: bad requests get a status and a message that says what to do",
          "[coordinator]") {
  CoordinatorFixture fixture;
  const v1::SubmitRequest good = fixture.GoodRequest();
  const auto refused = [&](const v1::SubmitRequest& request) {
    return CodeAndMessage(fixture.client().Submit(request).status());
  };
  v1::SubmitRequest request = good;
  request.set_task_version(Sha256Hex("unknown"));
  CHECK_THAT(refused(request), Contains("NOT_FOUND: there is no task version") &&
                                   Contains("register the task first"));
  request = good;
  request.clear_candidate_source();
  CHECK_THAT(refused(request), Contains("INVALID_ARGUMENT: candidate_source is empty"));
  request = good;
  request.set_candidate_source(std::string(10 << 20, '#'));
  CHECK_THAT(refused(request),
             Contains("INVALID_ARGUMENT: candidate_source has 10485760 bytes; at most 1048576"));
  request = good;
  request.mutable_policy()->set_name("fast");
  request.mutable_policy()->set_atol(-1);
  CHECK_THAT(refused(request), Contains("INVALID_ARGUMENT: there is no policy \"fast\"") &&
                                   Contains("policy.atol is -1"));
  request = good;
  request.set_candidate_sha256("abc");
  CHECK_THAT(refused(request), Contains("INVALID_ARGUMENT: candidate_sha256 is malformed"));
  {
    const WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
    const WelcomedWorker gpu(fixture.target(), GpuHello("gpu-1"));
    request = good;
    request.set_gpu_class("cpu");
    request.set_toolchain_digest(Sha256Hex("another toolchain"));
    CHECK_THAT(refused(request), Contains("FAILED_PRECONDITION: ") && Contains("toolchain"));
    request = good;
    request.set_gpu_class("NVIDIA B300");
    CHECK_THAT(refused(request), Contains("FAILED_PRECONDITION: ") && Contains("NVIDIA B300"));
  }
  v1::RegisterTaskRequest task;
  task.set_name("no spaces");
  task.set_source("x");
  CHECK_THAT(CodeAndMessage(fixture.client().Register(task).status()),
             Contains("INVALID_ARGUMENT: name must be 1 to 200 characters"));
  CHECK_THAT(CodeAndMessage(fixture.client().Get("ev-9999999999").status()),
             Contains("NOT_FOUND: there is no evaluation"));
  CHECK_THAT(CodeAndMessage(fixture.client().Get("nonsense").status()),
             Contains("NOT_FOUND: there is no evaluation \"nonsense\""));
  CHECK_THAT(CodeAndMessage(fixture.client().Watch("nonsense").status()), Contains("NOT_FOUND"));
  CHECK_THAT(CodeAndMessage(fixture.client().Watch("ev-9999999999").status()),
             Contains("NOT_FOUND"));
  CHECK_THAT(CodeAndMessage(fixture.client().Cancel("ev-9999999999").status()),
             Contains("NOT_FOUND"));
  CHECK_THAT(CodeAndMessage(fixture.client().Drain("nobody").status()),
             Contains("NOT_FOUND: there is no worker nobody"));
}

TEST_CASE("Coordinator: a client key makes a submission idempotent", "[coordinator]") {
  CoordinatorFixture fixture;
  v1::SubmitRequest request = fixture.GoodRequest();
  request.set_client_key("once");
  const auto first = fixture.client().Submit(request);
  REQUIRE(first.ok());
  CHECK(first->created());
  const auto again = fixture.client().Submit(request);
  REQUIRE(again.ok());
  CHECK_FALSE(again->created());
  CHECK(again->evaluation().evaluation_id() == first->evaluation().evaluation_id());
  request.set_candidate_source("class ModelNew: other = 1");
  CHECK(fixture.client().Submit(request).status().code() == absl::StatusCode::kAlreadyExists);
  CHECK(fixture.client().List({})->evaluations_size() == 1);
}

TEST_CASE("Coordinator: a cancelled evaluation ends as cancelled and its lease is taken back",
          "[coordinator]") {
  CoordinatorFixture fixture;
  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  const WelcomedWorker gpu(fixture.target(), GpuHello("gpu-1"));
  const v1::EvaluationRecord accepted = fixture.Submit(fixture.GoodRequest());
  const v1::Lease lease = compiler.NextLease();
  const auto cancelled = fixture.client().Cancel(accepted.evaluation_id());
  REQUIRE(cancelled.ok());
  CHECK(cancelled->verdict().kind() == v1::VERDICT_KIND_CANCELLED);
  CHECK(compiler.Read().cancel_lease().lease_id() == lease.lease_id());
  compiler.SendCompiled(lease);  // too late: changes nothing, but is acknowledged
  CHECK(compiler.ReadAny().result_ack().lease_id() == lease.lease_id());
  const auto again = fixture.client().Cancel(accepted.evaluation_id());
  REQUIRE(again.ok());
  CHECK(again->verdict().kind() == v1::VERDICT_KIND_CANCELLED);
}

TEST_CASE("Coordinator: evaluations and tasks are listed newest first, page by page",
          "[coordinator]") {
  CoordinatorFixture fixture;
  const v1::SubmitRequest request = fixture.GoodRequest();
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i)
    ids.insert(ids.begin(), fixture.Submit(request).evaluation_id());
  REQUIRE(fixture.client().Cancel(ids[1]).ok());
  REQUIRE(fixture.client().Cancel(ids[4]).ok());
  std::vector<std::string> listed;
  v1::ListEvaluationsRequest page;
  page.set_page_size(2);
  do {
    const auto response = fixture.client().List(page);
    REQUIRE(response.ok());
    for (const v1::EvaluationRecord& record : response->evaluations())
      listed.push_back(record.evaluation_id());
    page.set_page_token(response->next_page_token());
  } while (!page.page_token().empty());
  CHECK(listed == ids);
  v1::ListEvaluationsRequest active;
  active.set_active_only(true);
  CHECK(fixture.client().List(active)->evaluations_size() == 3);
  v1::ListEvaluationsRequest other;
  other.set_task_version(Sha256Hex("other"));
  CHECK(fixture.client().List(other)->evaluations_size() == 0);
  CHECK(fixture.client().ListTasks({})->tasks_size() == 1);
  CHECK(fixture.client().GetTask(request.task_version())->task().entry_reference() == "Model");
}

TEST_CASE("Coordinator: blobs are verified, bounded and read back", "[coordinator]") {
  CoordinatorFixture fixture;
  const std::string bytes(3 << 20, 'b');
  const std::string part = bytes.substr(0, 1 << 20);
  CHECK(fixture.client().WriteBlob(Sha256Hex(bytes), {part, part, part}).value() == bytes.size());
  CHECK(fixture.client().ReadBlob(Sha256Hex(bytes)).value() == bytes);
  CHECK(fixture.client().WriteBlob(Sha256Hex(""), {""}).value() == 0);
  CHECK(fixture.client().ReadBlob(Sha256Hex("")).value().empty());
  const auto code = [&](const std::string& sha256, const std::vector<std::string>& chunks) {
    return fixture.client().WriteBlob(sha256, chunks).status().code();
  };
  CHECK(code("xyz", {"a"}) == absl::StatusCode::kInvalidArgument);
  CHECK(code(Sha256Hex("a"), {part + "b"}) == absl::StatusCode::kInvalidArgument);
  CHECK(code(Sha256Hex("a"), {"b"}) == absl::StatusCode::kDataLoss);
  CHECK(code(Sha256Hex("a"), {}) == absl::StatusCode::kInvalidArgument);
  CHECK(fixture.client().ReadBlob(Sha256Hex("a")).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("Coordinator: artifacts are for live worker sessions, and the first one wins",
          "[coordinator]") {
  CoordinatorFixture fixture;
  REQUIRE(fixture.client().WriteBlob(Sha256Hex("one"), {"one"}).ok());
  REQUIRE(fixture.client().WriteBlob(Sha256Hex("two"), {"two"}).ok());
  v1::PublishArtifactRequest publish;
  publish.set_key(Sha256Hex("key"));
  publish.set_artifact_sha256(Sha256Hex("one"));
  publish.set_toolchain_digest(Sha256Hex("toolchain"));
  publish.set_session_id("guess");
  CHECK(fixture.client().Publish(publish).status().code() == absl::StatusCode::kPermissionDenied);
  v1::LookupArtifactRequest lookup;
  lookup.set_key(Sha256Hex("key"));
  CHECK(fixture.client().Lookup(lookup).status().code() == absl::StatusCode::kPermissionDenied);

  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  publish.set_session_id(compiler.welcome.session_id());
  lookup.set_session_id(compiler.welcome.session_id());
  CHECK(fixture.client().Lookup(lookup).status().code() == absl::StatusCode::kNotFound);
  CHECK(fixture.client().Publish(publish).value() == Sha256Hex("one"));
  publish.set_artifact_sha256(Sha256Hex("two"));
  CHECK(fixture.client().Publish(publish).value() == Sha256Hex("one"));
  CHECK(fixture.client().Lookup(lookup).value() == Sha256Hex("one"));
  publish.set_artifact_sha256(Sha256Hex("no blob"));
  CHECK(fixture.client().Publish(publish).status().code() == absl::StatusCode::kFailedPrecondition);
  publish.set_artifact_sha256(Sha256Hex("two"));
  publish.set_toolchain_digest(Sha256Hex("another"));
  CHECK(fixture.client().Publish(publish).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Coordinator: a malformed Hello is refused with the reason", "[coordinator]") {
  CoordinatorFixture fixture;
  v1::Hello hello = CompileHello("compile-1");
  hello.mutable_toolchain()->set_digest("?");
  ScriptedWorker worker(fixture.target(), hello);
  CHECK_THAT(worker.Read().refused().reason(), Contains("toolchain.digest"));
  CHECK(worker.Finish().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Coordinator: workers are listed and drained", "[coordinator]") {
  CoordinatorFixture fixture;
  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  const WelcomedWorker gpu(fixture.target(), GpuHello("gpu-1"));
  const auto workers = fixture.client().ListWorkers();
  REQUIRE(workers.ok());
  REQUIRE(workers->workers_size() == 2);
  CHECK(workers->workers(0).worker_id() == "compile-1");
  CHECK(workers->workers(1).devices(0).gpu_class() == "cpu");
  CHECK(workers->workers(1).state() == v1::WORKER_STATE_READY);
  const auto drained = fixture.client().Drain("compile-1");
  REQUIRE(drained.ok());
  CHECK(drained->state() == v1::WORKER_STATE_DRAINING);
  CHECK(compiler.Read().has_drain());
}

TEST_CASE("Coordinator: after a restart a worker that kept its lease delivers the verdict",
          "[coordinator]") {
  CoordinatorFixture fixture;
  v1::Lease run;
  std::string id;
  {
    WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
    WelcomedWorker gpu(fixture.target(), GpuHello("gpu-1"));
    id = fixture.Submit(fixture.GoodRequest()).evaluation_id();
    compiler.SendCompiled(compiler.NextLease());
    run = gpu.NextLease();
    fixture.Stop();
  }
  fixture.Start();
  CHECK(fixture.client().Get(id)->stage() == v1::STAGE_PREPARE);
  v1::Hello hello = GpuHello("gpu-1");
  v1::HeldLease* held = hello.add_held_leases();
  held->set_lease_id(run.lease_id());
  held->set_attempt(run.attempt());
  WelcomedWorker gpu(fixture.target(), hello);
  CHECK(gpu.welcome.revoked_lease_ids_size() == 0);
  gpu.SendVerdict(run, v1::VERDICT_KIND_VALID);
  const auto shown = fixture.client().Watch(id);
  REQUIRE(shown.ok());
  CHECK(shown->back().verdict().kind() == v1::VERDICT_KIND_VALID);
}

TEST_CASE("Coordinator: health and reflection answer", "[coordinator]") {
  CoordinatorFixture fixture;
  // Field 1, SERVING.
  CHECK(fixture.client().CallRaw("/grpc.health.v1.Health/Check", "").value() == "\x08\x01");
  // Field 7, list_services.
  const std::string services =
      fixture.client()
          .CallRaw("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*")
          .value();
  for (const char* name : {"pike.v1.Task", "pike.v1.Evaluation", "pike.v1.Worker", "pike.v1.Blob",
                           "pike.v1.Artifact", "pike.v1.Admin", "grpc.health.v1.Health"})
    CHECK_THAT(services, Contains(name));
}

TEST_CASE("Coordinator: a second one on the same store or socket is refused", "[coordinator]") {
  CoordinatorFixture fixture;
  const std::string folder = fixture.target().substr(5, fixture.target().rfind('/') - 5);
  Options options;
  options.listen = fixture.target();
  options.store = folder + "/state";
  options.metrics_address = "off";
  auto second = Server::Start(options, [] {});
  CHECK_THAT(CodeAndMessage(second.status()),
             Contains("FAILED_PRECONDITION: ") && Contains("another coordinator uses it"));
  options.store = folder + "/other";
  second = Server::Start(options, [] {});
  CHECK_THAT(CodeAndMessage(second.status()),
             Contains("FAILED_PRECONDITION: another process listens at"));
}

}  // namespace
}  // namespace pike::coordinator
