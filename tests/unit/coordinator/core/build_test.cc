#include <string>

#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

// One evaluation runs on g1, which has no compiler; c1 is free.
struct Asking : CoreFixture {
  Asking() {
    ConnectCompile("c1");
    ConnectGpu("g1");
    id = Submit();
    FinishCompile("c1", LeaseOf(id));
    run = LeaseOf(id);
  }
  void Ask(uint64_t build_request_id = 1) {
    Do(BuildRequested{Session("g1"), build_request_id, run.lease_id, "sha", "cpu",
                      Milliseconds(30'000)});
  }
  LeaseRef BuildLease() const { return LeaseOf(EvaluationId()); }
  EvaluationId id;
  LeaseRef run;
};

TEST_CASE("Build: a late build goes to a compile worker and its outcome comes back",
          "[coordinator][core]") {
  Asking f;
  f.Ask();
  const SendLease lease = f.Only<SendLease>();
  CHECK(lease.session == f.Session("c1"));
  CHECK_FALSE(lease.evaluation_id.has_value());
  CHECK(std::get<BuildGrant>(lease.work).request_sha256 == "sha");
  CHECK(std::get<BuildGrant>(lease.work).timeout == Milliseconds(30'000));
  CHECK(f.All<AppendRecord>().empty());
  f.Ask();  // repeated
  CHECK(f.said.empty());

  f.Finish("c1", lease.lease, BuildFinished{"built"});
  const SendBuildReply reply = f.Only<SendBuildReply>();
  CHECK(reply.session == f.Session("g1"));
  CHECK(reply.build_request_id == 1);
  CHECK(reply.build_payload == "built");
  CHECK(reply.infra_error.empty());
  CHECK(f.core->Load().leases_build == 0);
}

TEST_CASE("Build: retries are bounded", "[coordinator][core]") {
  Asking f;
  f.Ask();
  SECTION("three failures are answered with the last reason") {
    f.FailInfra("c1", f.BuildLease());
    f.FailInfra("c1", f.BuildLease());
    CHECK(f.BuildLease().attempt == 3);
    f.FailInfra("c1", f.BuildLease());
    CHECK(f.Only<SendBuildReply>().infra_error ==
          "build attempt 3 at c1: infra_failure: disk full");
  }
  SECTION("one that no retry can help is answered at once") {
    f.FailInfra("c1", f.BuildLease(), false);
    CHECK(f.Only<SendBuildReply>().infra_error == "disk full");
  }
  SECTION("a lost compile worker counts") {
    for (int second = 0; second < 10; ++second) {
      f.Pass(Milliseconds(1'000));
      f.Beat("g1", {f.run});
    }
    f.ConnectCompile("c2");
    CHECK(f.BuildLease().attempt == 2);
  }
}

TEST_CASE("Build: a late build has the next free slot, before any compile", "[coordinator][core]") {
  Asking f;
  const EvaluationId second = f.Submit();
  const EvaluationId third = f.Submit();
  CHECK(f.StageOf(second) == Stage::kCompile);
  f.Ask();
  CHECK(f.core->Load().builds_waiting == 1);
  f.FinishCompile("c1", f.LeaseOf(second));
  CHECK(f.core->Load().leases_build == 1);
  CHECK(f.StageOf(third) == Stage::kQueuedCompile);
}

TEST_CASE("Build: when the asker is gone the build stops without a reply", "[coordinator][core]") {
  Asking f;
  f.Ask();
  const LeaseRef build = f.BuildLease();
  SECTION("its session broke") {
    f.Disconnect("g1");
  }
  SECTION("its evaluation was cancelled") {
    f.Cancel(f.id);
  }
  SECTION("its run has a verdict") {
    f.FinishRun("g1", f.run);
  }
  SECTION("its run failed") {
    f.FailInfra("g1", f.run);
  }
  bool is_cancelled = false;
  for (const SendCancelLease& cancel : f.All<SendCancelLease>())
    is_cancelled |= cancel.lease == build;
  CHECK(is_cancelled);
  f.Finish("c1", build, BuildFinished{"built"});
  CHECK(f.All<SendBuildReply>().empty());
  CHECK(f.Only<SendResultAck>().lease == build);
}

TEST_CASE("Build: a request that nobody can serve is answered at once", "[coordinator][core]") {
  Asking f;
  SECTION("the lease is not the asker's") {
    f.ConnectGpu("g2");
    f.Do(BuildRequested{f.Session("g2"), 1, f.run.lease_id, "sha", "cpu", Milliseconds(1)});
    CHECK(f.Only<SendBuildReply>().infra_error == "the lease that asks for the build is not live");
  }
  SECTION("too many at once") {
    for (uint64_t n = 1; n <= f.options.builds_per_worker_max; ++n)
      f.Ask(n);
    CHECK(f.All<SendBuildReply>().empty());
    f.Ask(100);
    CHECK(f.Only<SendBuildReply>().infra_error ==
          "more than 16 builds in progress for this worker");
  }
}

TEST_CASE("Build: one that waits for too long is answered", "[coordinator][core]") {
  Asking f;
  f.Do(WorkerDraining{f.Session("c1"), "bye"});
  f.Ask();
  const MonoTime end = f.now + Milliseconds(30'000) + f.options.lease_slack;
  while (f.now < end) {
    CHECK(f.All<SendBuildReply>().empty());
    f.Beat("g1", {f.run});
    f.Pass(Milliseconds(1'000));
  }
  CHECK(f.Only<SendBuildReply>().infra_error == "no compile worker finished the build in time");
}

}  // namespace
}  // namespace pike::coordinator
