#include <string>
#include <variant>

#include "coordinator/core/best_table.h"
#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

struct BestFleet : CoreFixture {
  using CoreFixture::CoreFixture;

  // Brings one more evaluation of a contest to its run and returns what its worker is told.
  double BestToldTo(const std::string& contest, const std::string& worker) {
    EvaluationSubmitted request = Request();
    request.contest = contest;
    Do(request);
    id = Only<AnswerSubmit>().evaluation_id;
    FinishCompile("c1", LeaseOf(id));
    const SendLease lease = Only<SendLease>();
    CHECK(lease.session == Session(worker));
    return std::get<RunGrant>(lease.work).best_speedup;
  }
  void End(const std::string& worker, VerdictKind kind, double speedup) {
    Finish(worker, LeaseOf(id), VerdictReached{kind, "verdict", speedup});
  }

  EvaluationId id;
};

TEST_CASE("Best: a run is told the best valid speedup of its contest", "[coordinator][core]") {
  BestFleet f;
  f.ConnectCompile("c1");
  f.ConnectGpu("g1");
  CHECK(f.BestToldTo("a", "g1") == 0);
  f.End("g1", VerdictKind::kValid, 1.5);
  CHECK(f.BestToldTo("a", "g1") == 1.5);
  f.End("g1", VerdictKind::kValid, 1.2);
  CHECK(f.BestToldTo("a", "g1") == 1.5);
  f.End("g1", VerdictKind::kSuspect, 9);
  CHECK(f.BestToldTo("a", "g1") == 1.5);
  f.End("g1", VerdictKind::kValid, 2.5);
  CHECK(f.BestToldTo("b", "g1") == 0);
  f.End("g1", VerdictKind::kIncorrect, 0);
  SECTION("after a restart too") {
    f.Restart();
    f.ConnectCompile("c1");
    f.ConnectGpu("g1");
    CHECK(f.BestToldTo("a", "g1") == 2.5);
  }
  SECTION("but not that of another class") {
    f.Disconnect("g1");
    WorkerFacts other = GpuFacts("g2");
    other.gpu_class = "nvidia-h200";
    f.Connect(other);
    CHECK(f.BestToldTo("a", "g2") == 0);
  }
}

TEST_CASE("Best: the table is bounded, and forgets what was improved the longest ago",
          "[coordinator][core]") {
  BestTable table(2);
  table.Apply(BestKept{"a", "cpu", 2, {1}});
  table.Apply(BestKept{"b", "cpu", 2, {2}});
  table.Apply(BestKept{"a", "cpu", 3, {3}});
  table.Apply(BestKept{"c", "cpu", 2, {4}});
  CHECK(table.SpeedupOf("a", "cpu") == 3);
  CHECK(table.SpeedupOf("b", "cpu") == 0);
  CHECK(table.SpeedupOf("c", "cpu") == 2);
  table.Withdraw("a", {1});
  CHECK(table.SpeedupOf("a", "cpu") == 3);
  table.Withdraw("a", {3});
  CHECK(table.SpeedupOf("a", "cpu") == 0);
  table.Apply(BestKept{"", "cpu", 2, {5}});
  table.Apply(BestKept{"d", "cpu", 0, {6}});
  std::vector<Record> records;
  table.AppendSnapshot(&records);
  CHECK(records == std::vector<Record>{BestKept{"c", "cpu", 2, {4}}});
}

}  // namespace
}  // namespace pike::coordinator
