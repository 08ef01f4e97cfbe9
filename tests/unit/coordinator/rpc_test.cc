#include <limits>
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "coordinator/rpc/convert.h"
#include "coordinator/rpc/evaluation_record.h"
#include "coordinator/rpc/record_codec.h"
#include "coordinator/rpc/validate.h"
#include "pike/store/v1/log.pb.h"
#include "tests/testing/catch.h"

namespace pike::coordinator {
namespace {

using testing::Contains;

const std::string kDigest = Sha256Hex("x");

EvaluationAccepted Accepted() {
  return {.evaluation_id = {42},
          .principal = {"local"},
          .client_key = "key",
          .request_digest = kDigest,
          .demand = {.gpu_class = "cpu", .toolchain_digest = kDigest},
          .times = {.queue_timeout = Milliseconds(1),
                    .compile_timeout = Milliseconds(2),
                    .build_timeout = Milliseconds(3),
                    .load_timeout = Milliseconds(4),
                    .first_call_timeout = Milliseconds(5),
                    .call_timeout = Milliseconds(6),
                    .timed_max = Milliseconds(7),
                    .correctness_trials = 8,
                    .warmup_calls = 9},
          .payload = std::string("\0\xff", 2),
          .submitted_unix_ms = 1'700'000'000'000,
          .contest = kDigest};
}

CompileStageDone Compiled() {
  return {.lease = {{1, 2}, 3},
          .evaluation_id = {42},
          .target = {.runtime_digest = kDigest, .arch = "sm_90a"},
          .builds_payload = "\xfe",
          .times_payload = "\xfd",
          .at_unix_ms = 5};
}

std::vector<Record> EveryRecord() {
  return {
      EpochStarted{.epoch = 3, .evaluations_accepted = 17},
      Accepted(),
      LeaseGranted{.lease = {{1, 2}, 3},
                   .evaluation_id = {42},
                   .kind = LeaseKind::kRun,
                   .worker_id = {"w"},
                   .target = {.runtime_digest = kDigest, .arch = "cpu"},
                   .granted_unix_ms = 4,
                   .queued = Milliseconds(6)},
      AttemptFailed{
          .lease = {{1, 2}, 3}, .evaluation_id = {42}, .reason = "\xff cut", .at_unix_ms = 4},
      Compiled(),
      EvaluationEnded{.evaluation_id = {42}, .kind = VerdictKind::kCancelled, .ended_unix_ms = 9},
      EvaluationEnded{.evaluation_id = {42},
                      .kind = VerdictKind::kValid,
                      .ended_unix_ms = 9,
                      .gpu_class = "cpu",
                      .speedup = 1.5,
                      .kept_of = {"w"}},
      WorkerSeen{.worker = {.worker_id = {"w"},
                            .kind = WorkerKind::kGpu,
                            .slots = 2,
                            .toolchain_digest = kDigest,
                            .runtime_digest = kDigest,
                            .gpu_class = "cpu",
                            .arch = "cpu",
                            .can_build = true,
                            .hello_payload = "\xfc"}},
      WorkerForgotten{.worker_id = {"w"}},
      WorkerDrained{.worker_id = {"w"}, .reason = "because"},
      CertificateGranted{.worker_id = {"w"},
                         .certificate = "w/2/9",
                         .number = 2,
                         .certified_unix_ms = 9,
                         .begun_unix_ms = 8},
      CanaryFailed{.worker_id = {"w"}, .reason = "\xff cut"},
      VerdictWithdrawn{.evaluation_id = {42}, .reason = "because", .at_unix_ms = 9},
      VerdictKept{.accepted = Accepted(),
                  .worker_id = {"w"},
                  .ended_unix_ms = 9,
                  .earlier_attempts = {"one", "\xff"}},
      EvaluationRestored{.accepted = Accepted(),
                         .stage = Stage::kQueuedRun,
                         .attempts = 2,
                         .earlier_attempts = {"one", "\xff"},
                         .compiled = Compiled(),
                         .queued_unix_ms = 8,
                         .queued_compile = Milliseconds(10),
                         .queued_run = Milliseconds(11)},
      EvaluationRestored{.accepted = Accepted()},
      ClientKeyKept{.principal = {"local"},
                    .client_key = "k",
                    .request_digest = kDigest,
                    .evaluation_id = {42}},
      BestKept{.contest = kDigest, .gpu_class = "cpu", .speedup = 1.25, .evaluation_id = {42}},
  };
}

v1::Hello GpuHello() {
  v1::Hello hello;
  hello.set_worker_id("gpu-host-1");
  hello.set_kind(v1::WORKER_KIND_GPU);
  hello.set_slots(1);
  hello.mutable_toolchain()->set_digest(kDigest);
  hello.mutable_toolchain()->set_runtime_digest(kDigest);
  v1::Device* device = hello.add_devices();
  device->set_device_id("cpu");
  device->set_gpu_class("cpu");
  device->set_arch("cpu");
  return hello;
}

std::string HelloProblem(const v1::Hello& hello) {
  const auto event = FromHello({"s"}, hello);
  return event.ok() ? "" : std::string(event.status().message());
}

std::string PolicyProblem(const v1::Policy& policy) {
  const auto complete = CompletePolicy(policy);
  return complete.ok() ? "" : std::string(complete.status().message());
}

TEST_CASE("Record codec: every record survives the round trip", "[coordinator][rpc]") {
  for (const Record& record : EveryRecord()) {
    INFO("record " << record.index());
    const auto decoded = DecodeRecord(EncodeRecord(record));
    REQUIRE(decoded.ok());
    CHECK((*decoded == record));
  }
}

TEST_CASE("Record codec: foreign bytes are data loss", "[coordinator][rpc]") {
  CHECK(DecodeRecord("").status().code() == absl::StatusCode::kDataLoss);
  CHECK(DecodeRecord("\xff\xff\xff").status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("Convert: every enumerator survives the round trip", "[coordinator][rpc]") {
  for (int value = 1; value <= v1::Stage_MAX; ++value) {
    const auto stage = FromProto(static_cast<v1::Stage>(value));
    REQUIRE(stage.has_value());
    CHECK(ToProto(*stage) == value);
  }
  for (int value = 1; value <= v1::VerdictKind_MAX; ++value) {
    const auto kind = FromProto(static_cast<v1::VerdictKind>(value));
    REQUIRE(kind.has_value());
    CHECK(ToProto(*kind) == value);
  }
  CHECK_FALSE(FromProto(v1::STAGE_UNSPECIFIED).has_value());
  CHECK_FALSE(FromProto(static_cast<v1::VerdictKind>(99)).has_value());
  CHECK(FromProto(v1::BLAME_TASK) == Blame::kTask);
  CHECK(FromProto(v1::BLAME_UNSPECIFIED) == Blame::kInfrastructure);
}

TEST_CASE("Policy: an empty one becomes the paper's, with every field filled in",
          "[coordinator][rpc]") {
  const auto policy = CompletePolicy({});
  REQUIRE(policy.ok());
  CHECK(policy->name() == "paper");
  CHECK(policy->atol() == 1e-2);
  CHECK(policy->rtol() == 1e-2);
  CHECK(policy->correctness_trials() == 5);
  CHECK(policy->timed_calls_max() == 100);
  CHECK(policy->queue_timeout_ms() == 600'000);
  CHECK(ToPolicyTimes(*policy) == PolicyTimes());
  v1::Policy exact;
  exact.set_atol(0);
  exact.set_rtol(0);
  CHECK(CompletePolicy(exact)->atol() == 0);
}

TEST_CASE("Policy: nonsense is refused with all problems in one line", "[coordinator][rpc]") {
  v1::Policy policy;
  policy.set_name("nap\ner");
  policy.set_atol(std::numeric_limits<double>::quiet_NaN());
  policy.set_rtol(-1);
  policy.set_correctness_trials(1);
  policy.set_queue_timeout_ms(99);
  policy.set_memory_bytes_max(500 << 20);
  const std::string problem = PolicyProblem(policy);
  CHECK_THAT(
      problem,
      Contains(
          "there is no policy \"nap\\ner\"; the built-in ones are: paper, kernelbench, strict"));
  CHECK_THAT(problem, Contains("policy.atol is nan; it must be a finite number of at least 0"));
  CHECK_THAT(problem, Contains("policy.rtol is -1"));
  CHECK_THAT(problem, Contains("policy.correctness_trials is 1; it must be 5 to 100"));
  CHECK_THAT(problem, Contains("policy.queue_timeout_ms is 99; it must be 100 to 86400000"));
  CHECK_THAT(problem, Contains("policy.memory_bytes_max is 524288000; it must be 1073741824 to"));
  CHECK(problem.find('\n') == std::string::npos);
  v1::Policy infinite;
  infinite.set_atol(std::numeric_limits<double>::infinity());
  CHECK_THAT(PolicyProblem(infinite), Contains("policy.atol is inf"));
}

TEST_CASE("Validate: submissions are checked field by field", "[coordinator][rpc]") {
  v1::SubmitRequest request;
  request.set_candidate_source("class ModelNew: pass");
  request.set_task_version(kDigest);
  CHECK(CheckSubmit(request).ok());
  SECTION("empty source") {
    request.clear_candidate_source();
    CHECK_THAT(std::string(CheckSubmit(request).message()), Contains("candidate_source is empty"));
  }
  SECTION("oversized source") {
    request.set_candidate_source(std::string((1 << 20) + 1, 'x'));
    CHECK_THAT(std::string(CheckSubmit(request).message()),
               Contains("candidate_source has 1048577 bytes; at most 1048576 (1 MiB)"));
  }
  SECTION("malformed task version") {
    request.set_task_version("latest");
    CHECK_THAT(std::string(CheckSubmit(request).message()), Contains("task_version is malformed"));
  }
  SECTION("wrong digest") {
    request.set_candidate_sha256(kDigest);
    CHECK_THAT(std::string(CheckSubmit(request).message()), Contains("is not the digest of"));
  }
  SECTION("long key") {
    request.set_client_key(std::string(129, 'k'));
    CHECK_THAT(std::string(CheckSubmit(request).message()), Contains("at most 128"));
  }
  SECTION("control characters in a name") {
    request.set_candidate_name("a\nb");
    CHECK_THAT(std::string(CheckSubmit(request).message()), Contains("control characters"));
  }
}

TEST_CASE("Validate: the version of a task depends on all that its reference computes",
          "[coordinator][rpc]") {
  v1::TaskRecord task;
  task.set_source_sha256(kDigest);
  task.set_entry_reference("Model");
  const std::string version = TaskVersion(task);
  v1::TaskRecord named = task;
  named.set_name("level1/1");
  CHECK(TaskVersion(named) == version);
  v1::TaskRecord seeded = task;
  seeded.set_weight_seed(1);
  CHECK(TaskVersion(seeded) != version);
}

TEST_CASE("Validate: page tokens come back as they were", "[coordinator][rpc]") {
  const auto start = ParsePageToken(ToPageToken({.unix_ms = 17, .id = "ev-0000000001"}));
  REQUIRE(start.ok());
  CHECK(start->unix_ms == 17);
  CHECK(start->id == "ev-0000000001");
  CHECK_FALSE(ParsePageToken("nonsense").ok());
  CHECK_FALSE(ParsePageToken("17:").ok());
  CHECK(PageSize(0) == 100);
  CHECK(PageSize(5000) == 1000);
}

TEST_CASE("Convert: a Hello becomes the facts the core decides by", "[coordinator][rpc]") {
  v1::Hello hello = GpuHello();
  v1::HeldLease* held = hello.add_held_leases();
  held->set_lease_id(ToText(LeaseId{3, 17}));
  held->set_attempt(2);
  const auto event = FromHello({"s"}, hello);
  REQUIRE(event.ok());
  CHECK(event->worker.worker_id.value == "gpu-host-1");
  CHECK(event->worker.gpu_class == "cpu");
  CHECK((event->held_leases == std::vector<LeaseRef>{{{3, 17}, 2}}));
}

TEST_CASE("Convert: a malformed Hello is refused with the reason", "[coordinator][rpc]") {
  v1::Hello hello = GpuHello();
  CHECK(HelloProblem(hello).empty());
  SECTION("id") {
    hello.set_worker_id("a b");
    CHECK_THAT(HelloProblem(hello), Contains("worker_id must be"));
  }
  SECTION("slots") {
    hello.set_slots(0);
    CHECK_THAT(HelloProblem(hello), Contains("slots"));
  }
  SECTION("toolchain") {
    hello.mutable_toolchain()->set_digest("abc");
    CHECK_THAT(HelloProblem(hello), Contains("toolchain.digest"));
  }
  SECTION("no devices") {
    hello.clear_devices();
    CHECK_THAT(HelloProblem(hello), Contains("devices"));
  }
  SECTION("two classes") {
    *hello.add_devices() = hello.devices(0);
    hello.mutable_devices(1)->set_gpu_class("NVIDIA H200");
    CHECK_THAT(HelloProblem(hello), Contains("one worker per class"));
  }
  SECTION("held lease") {
    hello.add_held_leases()->set_lease_id("mine");
    CHECK_THAT(HelloProblem(hello), Contains("malformed lease id"));
  }
}

TEST_CASE("Convert: results become outcomes, and shapeless ones infrastructure failures",
          "[coordinator][rpc]") {
  v1::WorkerMessage message;
  v1::LeaseResult* result = message.mutable_lease_result();
  result->set_lease_id(ToText(LeaseId{1, 2}));
  result->set_attempt(3);
  const auto outcome = [&] {
    auto event = FromWorker({"s"}, kDigest, message);
    REQUIRE(event.ok());
    return std::get<LeaseResultReceived>(*event).outcome;
  };
  CHECK(std::get<InfraFailed>(outcome()).is_retryable);
  result->mutable_verdict()->set_kind(v1::VERDICT_KIND_VALID);
  CHECK(std::get<VerdictReached>(outcome()).kind == VerdictKind::kValid);
  result->mutable_verdict()->set_kind(v1::VERDICT_KIND_CANCELLED);
  CHECK(std::holds_alternative<InfraFailed>(outcome()));
  result->mutable_infra_failure()->set_blame(v1::BLAME_TASK);
  CHECK(std::get<InfraFailed>(outcome()).blame == Blame::kTask);
  result->set_lease_id("lease");
  CHECK_FALSE(FromWorker({"s"}, kDigest, message).ok());
}

TEST_CASE("Evaluation record: an ended one has verdict, builds of both stages and all times",
          "[coordinator][rpc]") {
  v1::EvaluationRecord accepted;
  accepted.set_candidate_name("good.py");
  store::v1::BuildsPayload builds;
  builds.mutable_compiled()->add_builds()->set_key("a");
  builds.mutable_compiled()->add_builds()->set_key("b");
  v1::Verdict verdict;
  verdict.set_kind(v1::VERDICT_KIND_VALID);
  verdict.add_builds()->set_key("b");
  verdict.mutable_builds(0)->set_reused(true);
  v1::StageTimes compile_times;
  compile_times.set_compile_ms(30);
  v1::StageTimes run_times;
  run_times.set_measure_ms(7);
  const EndEvaluation end{.evaluation_id = {7},
                          .verdict = WorkerVerdict{.kind = VerdictKind::kValid,
                                                   .payload = verdict.SerializeAsString(),
                                                   .worker_id = {"w"}},
                          .payload = MakePayload(accepted, {}),
                          .attempt = 2,
                          .earlier_attempts = {"lost"},
                          .builds_payload = builds.SerializeAsString(),
                          .compile_times_payload = compile_times.SerializeAsString(),
                          .run_times_payload = run_times.SerializeAsString(),
                          .queued_compile = Milliseconds(5),
                          .queued_run = Milliseconds(6),
                          .submitted_unix_ms = 1000,
                          .ended_unix_ms = 1100};
  const v1::EvaluationRecord record = ToProto(end);
  CHECK(record.evaluation_id() == ToText(EvaluationId{7}));
  CHECK(record.candidate_name() == "good.py");
  CHECK(record.stage() == v1::STAGE_ENDED);
  CHECK(record.verdict().evidence().worker_id() == "w");
  CHECK(record.verdict().evidence().attempt() == 2);
  CHECK(record.verdict().evidence().earlier_attempts(0) == "lost");
  REQUIRE(record.verdict().builds_size() == 2);
  CHECK(record.verdict().builds(0).key() == "a");
  CHECK(record.verdict().builds(1).reused());
  CHECK(record.times().compile_ms() == 30);
  CHECK(record.times().measure_ms() == 7);
  CHECK(record.times().queued_run_ms() == 6);
  CHECK(record.times().total_ms() == 100);
}

}  // namespace
}  // namespace pike::coordinator
