#include <string>
#include <variant>

#include "tests/testing/catch.h"
#include "tests/testing/core_fixture.h"

namespace pike::coordinator {
namespace {

constexpr Milliseconds kTimeout(600'000);  // queue_timeout by default

// One evaluation runs on the only GPU worker, another waits behind it.
struct Busy : CoreFixture {
  Busy() {
    ConnectCompile("c1");
    ConnectGpu("g1");
    running = Submit();
    FinishCompile("c1", LeaseOf(running));
    waiting = Submit();
    FinishCompile("c1", LeaseOf(waiting));
  }
  // Both workers live on, and so does the lease.
  void BeatFor(Milliseconds span) {
    for (const MonoTime end = now + span; now < end;) {
      Pass(Milliseconds(5'000));
      Beat("c1");
      Beat("g1", {LeaseOf(running)});
    }
  }
  std::string ReasonOf(EvaluationId id) {
    return std::get<CoreVerdict>(FullEndOf(id).verdict).reason;
  }
  EvaluationId running;
  EvaluationId waiting;
};

TEST_CASE("Queue deadline: a busy worker does not end what waits for it", "[coordinator][core]") {
  Busy f;
  f.BeatFor(2 * kTimeout);
  CHECK(f.StageOf(f.waiting) == Stage::kQueuedRun);
  f.FinishRun("g1", f.LeaseOf(f.running));
  CHECK(f.StageOf(f.waiting) == Stage::kPrepare);
}

TEST_CASE("Queue deadline: the clock runs from when the last fitting worker left",
          "[coordinator][core]") {
  Busy f;
  f.BeatFor(kTimeout / 2);
  f.Disconnect("g1");
  f.Pass(kTimeout - Milliseconds(1));
  CHECK(f.StageOf(f.waiting) == Stage::kQueuedRun);
  f.Pass(Milliseconds(1));
  CHECK(f.EndOf(f.waiting) == VerdictKind::kInfraError);
  CHECK(f.ReasonOf(f.waiting) ==
        "no worker: no GPU worker that could take it was connected for 600000 ms");
  // The worst waits are those that were in vain.
  CHECK(f.All<ObserveQueueWait>().back().wait == kTimeout + kTimeout / 2);
}

TEST_CASE("Queue deadline: a worker that came back starts the clock anew", "[coordinator][core]") {
  Busy f;
  f.Disconnect("g1");
  f.Pass(kTimeout / 2);
  f.ConnectGpu("g1");
  CHECK(f.LeaseOf(f.running).attempt == 2);
  f.Disconnect("g1");
  f.Pass(kTimeout - Milliseconds(1));
  CHECK(f.StageOf(f.waiting) == Stage::kQueuedRun);
  f.Pass(Milliseconds(1));
  CHECK(f.EndOf(f.waiting) == VerdictKind::kInfraError);
}

TEST_CASE("Queue deadline: a worker of another class serves nobody", "[coordinator][core]") {
  CoreOptions options;
  options.gpu_classes = {"cpu"};
  CoreFixture f(options);
  WorkerFacts other = GpuFacts("g1");
  other.gpu_class = "other";
  f.Connect(other);
  EvaluationSubmitted request = f.Request();
  request.demand.gpu_class = "cpu";
  f.Do(request);
  const EvaluationId id = f.Only<AnswerSubmit>().evaluation_id;
  for (int second = 0; second < 600; ++second) {
    f.Pass(Milliseconds(1'000));
    f.Beat("g1");
  }
  CHECK(f.EndOf(id) == VerdictKind::kInfraError);
}

TEST_CASE("Queue deadline: draining workers take nothing, and the reason says so",
          "[coordinator][core]") {
  Busy f;
  f.Do(DrainRequested{{99}, {"g1"}, "going away"});
  f.BeatFor(kTimeout);
  CHECK(f.EndOf(f.waiting) == VerdictKind::kInfraError);
  CHECK(f.ReasonOf(f.waiting) ==
        "no worker: all that could take it (1 GPU) have been draining for 600000 ms");
}

}  // namespace
}  // namespace pike::coordinator
