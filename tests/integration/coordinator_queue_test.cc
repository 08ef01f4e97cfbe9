// Queues, bounds and the end of a coordinator, as clients and workers see them.
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/catch.h"
#include "tests/testing/coordinator_client.h"
#include "tests/testing/coordinator_fixture.h"

namespace pike::coordinator {
namespace {

using testing::Contains;

TEST_CASE("Coordinator: a waiting evaluation is shown to move up until it ends", "[coordinator]") {
  CoordinatorFixture fixture;
  const v1::SubmitRequest request = fixture.GoodRequest();
  const v1::EvaluationRecord first = fixture.Submit(request);
  const v1::EvaluationRecord second = fixture.Submit(request);
  CHECK(first.queue_position() == 1);
  CHECK(second.queue_position() == 2);
  std::vector<uint32_t> places;  // as the stream showed them
  const auto shown =
      fixture.client().Watch(second.evaluation_id(), [&](const v1::EvaluationRecord& record) {
        if (places.empty() || places.back() != record.queue_position())
          places.push_back(record.queue_position());
        const std::string& next = (record.queue_position() == 2 ? first : second).evaluation_id();
        if (record.stage() == v1::STAGE_QUEUED_COMPILE)
          CHECK(fixture.client().Cancel(next).ok());
        return true;
      });
  REQUIRE(shown.ok());
  CHECK(places == std::vector<uint32_t>{2, 1, 0});
  CHECK(shown->back().verdict().kind() == v1::VERDICT_KIND_CANCELLED);
}

TEST_CASE("Coordinator: a full queue refuses and says so", "[coordinator]") {
  CoreOptions options;
  options.queue_compile_max = 2;
  options.gpu_classes = {"cpu"};
  CoordinatorFixture fixture(options);
  const v1::SubmitRequest request = fixture.GoodRequest();
  const std::string first = fixture.Submit(request).evaluation_id();
  fixture.Submit(request);
  CHECK(absl::IsResourceExhausted(fixture.client().Submit(request).status()));
  REQUIRE(fixture.client().Cancel(first).ok());
  CHECK(fixture.client().Submit(request).ok());
}

TEST_CASE("Coordinator: work that nobody comes for ends as infra_error: no worker",
          "[coordinator]") {
  CoordinatorFixture fixture;
  v1::SubmitRequest request = fixture.GoodRequest();
  request.mutable_policy()->set_queue_timeout_ms(100);
  const auto shown = fixture.client().Watch(fixture.Submit(request).evaluation_id());
  REQUIRE(shown.ok());
  CHECK(shown->back().verdict().kind() == v1::VERDICT_KIND_INFRA_ERROR);
  CHECK_THAT(shown->back().verdict().reason(), Contains("no worker"));
  CHECK(shown->back().verdict().blame() == v1::BLAME_INFRASTRUCTURE);
}

TEST_CASE("Coordinator: a meaningless message of a worker is skipped and its leases live on",
          "[coordinator]") {
  CoordinatorFixture fixture;
  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  WelcomedWorker gpu(fixture.target(), GpuHello("gpu-1"));
  const std::string id = fixture.Submit(fixture.GoodRequest()).evaluation_id();
  const v1::Lease lease = compiler.NextLease();
  compiler.Send({});
  v1::WorkerMessage foreign;
  foreign.mutable_lease_result()->set_lease_id("not one of ours");
  foreign.mutable_lease_result()->set_attempt(3);
  compiler.Send(foreign);
  CHECK(compiler.ReadAny().result_ack().lease_id() == "not one of ours");
  compiler.SendCompiled(lease);
  gpu.SendVerdict(gpu.NextLease(), v1::VERDICT_KIND_VALID);
  CHECK(fixture.client().Watch(id)->back().verdict().kind() == v1::VERDICT_KIND_VALID);
}

TEST_CASE("Coordinator: the second stream of a worker replaces the first", "[coordinator]") {
  CoordinatorFixture fixture;
  WelcomedWorker first(fixture.target(), CompileHello("compile-1"));
  const WelcomedWorker second(fixture.target(), CompileHello("compile-1"));
  CHECK(first.welcome.session_id() != second.welcome.session_id());
  CHECK(absl::IsAborted(first.Finish()));
  CHECK(fixture.client().ListWorkers()->workers_size() == 1);
}

TEST_CASE("Coordinator: watchers and workers are told that it stops", "[coordinator]") {
  CoordinatorFixture fixture;
  WelcomedWorker compiler(fixture.target(), CompileHello("compile-1"));
  const std::string id = fixture.Submit(fixture.GoodRequest()).evaluation_id();
  absl::Status watched;
  std::jthread watcher([&, target = fixture.target()] {
    CoordinatorClient client(target);
    watched = client.Watch(id).status();
  });
  std::jthread worker([&compiler] { compiler.Finish().IgnoreError(); });
  fixture.Stop();
  fixture.Start();
  REQUIRE(fixture.client().Cancel(id).ok());
  watcher.join();
  INFO(watched.ToString());
  // OK if the watch only began after the restart; Cancelled, by gRPC itself, if it arrived just as
  // the server went.
  CHECK((watched.ok() || absl::IsUnavailable(watched) || absl::IsCancelled(watched)));
}

}  // namespace
}  // namespace pike::coordinator
