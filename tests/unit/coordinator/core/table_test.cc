#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/client_keys.h"
#include "coordinator/core/deadline_index.h"
#include "coordinator/core/fair_queue.h"
#include "coordinator/core/limits.h"
#include "coordinator/core/types.h"
#include "tests/testing/catch.h"

namespace pike::coordinator {
namespace {

bool Anything(const Need&) {
  return true;
}

TEST_CASE("FairQueue: turns go round, oldest first within a principal", "[coordinator][core]") {
  FairQueue queue;
  const Need need;
  for (const uint64_t id : {1, 2, 5})
    queue.Insert({"ann"}, need, {id});
  queue.Insert({"bob"}, need, {3});
  queue.Insert({"eve"}, need, {4});
  std::vector<uint64_t> order;
  const std::vector<Principal> owner = {{}, {"ann"}, {"ann"}, {"bob"}, {"eve"}, {"ann"}};
  while (const auto id = queue.Next(Anything)) {
    // The position is the truth about the order of service.
    CHECK(queue.Position(owner[id->value], *id) == 1);
    order.push_back(id->value);
    queue.EndTurn(owner[id->value]);
    queue.Erase(owner[id->value], need, *id);
  }
  CHECK(order == std::vector<uint64_t>{1, 3, 4, 2, 5});
  CHECK(queue.size() == 0);
}

TEST_CASE("FairQueue: positions count everybody's turns", "[coordinator][core]") {
  FairQueue queue;
  const Need need;
  for (const uint64_t id : {1, 2, 3})
    queue.Insert({"ann"}, need, {id});
  queue.Insert({"bob"}, need, {4});
  queue.Insert({"bob"}, need, {5});
  CHECK(queue.Position({"ann"}, {1}) == 1);
  CHECK(queue.Position({"bob"}, {4}) == 2);
  CHECK(queue.Position({"ann"}, {2}) == 3);
  CHECK(queue.Position({"bob"}, {5}) == 4);
  CHECK(queue.Position({"ann"}, {3}) == 5);
  queue.EndTurn({"ann"});
  CHECK(queue.Position({"bob"}, {4}) == 1);
  CHECK(queue.Position({"ann"}, {1}) == 2);
}

TEST_CASE("FairQueue: a need that does not fit is passed over", "[coordinator][core]") {
  FairQueue queue;
  const Need h200{{"NVIDIA H200", ""}, {}};
  const Need cpu{{"cpu", ""}, {}};
  queue.Insert({"ann"}, h200, {1});
  queue.Insert({"ann"}, cpu, {2});
  const auto next = queue.Next([&](const Need& need) { return need == cpu; });
  CHECK(next == EvaluationId{2});
  CHECK(queue.Next([](const Need&) { return false; }) == std::nullopt);
}

TEST_CASE("FairQueue: needs of several kinds pass nobody over", "[coordinator][core]") {
  // Two devices of two classes become free in turn. Ann waits for the first, bob for the second,
  // and eve for both.
  FairQueue queue;
  const Need first{{"first", ""}, {}};
  const Need second{{"second", ""}, {}};
  uint64_t next_id = 1;
  const auto fill = [&](const Principal& principal, const Need& need) {
    queue.Insert(principal, need, {next_id++});
  };
  for (int i = 0; i < 8; ++i) {
    fill({"bob"}, second);
    fill({"eve"}, first);
    fill({"eve"}, second);
  }
  fill({"ann"}, first);
  std::map<Principal, int> served;
  for (int i = 0; i < 6; ++i) {
    const Need& need = i % 2 == 0 ? first : second;
    const auto id = queue.Next([&](const Need& other) { return other == need; });
    REQUIRE(id.has_value());
    const Principal principal{id->value == 25 ? "ann" : id->value % 3 == 1 ? "bob" : "eve"};
    ++served[principal];
    queue.EndTurn(principal);
    queue.Erase(principal, need, *id);
  }
  CHECK(served[{"ann"}] == 1);
}

TEST_CASE("DeadlineIndex: keys come out by time, then by key", "[coordinator][core]") {
  DeadlineIndex<int> index;
  const MonoTime start{};
  index.Set(3, start + Milliseconds(10));
  index.Set(1, start + Milliseconds(20));
  index.Set(2, start + Milliseconds(10));
  index.Set(4, start + Milliseconds(10));
  index.Set(1, start + Milliseconds(5));
  index.Clear(4);
  index.Clear(99);
  CHECK(index.Next() == start + Milliseconds(5));
  CHECK(index.TakeDue(start + Milliseconds(10)) == std::vector<int>{1, 2, 3});
  CHECK(index.Next() == std::nullopt);
}

TEST_CASE("Limits: the defaults are valid and every problem is named", "[coordinator][core]") {
  CHECK(Problems(CoreOptions()).empty());
  CoreOptions options;
  options.attempts_max = 0;
  options.lease_timeout = Milliseconds(1);
  options.gpu_classes = {""};
  CHECK(Problems(options) ==
        std::vector<std::string>{"attempts_max is 0, not in 1 to 10",
                                 "--lease-timeout-ms is less than twice --heartbeat-ms",
                                 "--gpu-class is empty"});
  options = CoreOptions();
  options.worker_memory = Milliseconds(9'999);
  CHECK(Problems(options).size() == 1);
}

TEST_CASE("Limits: a run may take as long as its parts", "[coordinator][core]") {
  PolicyTimes times;
  times.load_timeout = Milliseconds(1'000'000);
  times.build_timeout = Milliseconds(100'000);
  times.first_call_timeout = Milliseconds(10'000);
  times.call_timeout = Milliseconds(100);
  times.timed_max = Milliseconds(3);
  times.correctness_trials = 5;
  times.warmup_calls = 4;
  // Load, two budgets of builds, two first calls, 16 calls, and three times (21 calls and timing).
  const int64_t once = 1'000'000 + 200'000 + 20'000 + 1'600 + 3 * (2'100 + 24);
  CHECK(RunTimeout(times) == Milliseconds(2 * once));  // it may be confirmed
}

TEST_CASE("Types: ids have one text form", "[coordinator][core]") {
  CHECK(ToText(EvaluationId{42}) == "ev-0000000042");
  CHECK(ParseEvaluationId("ev-0000000042") == EvaluationId{42});
  CHECK(ToText(LeaseId{3, 17}) == "lease-3-17");
  CHECK(ParseLeaseId("lease-3-17") == LeaseId{3, 17});
  for (const char* text : {"", "ev-", "ev--1", "ev- 1", "ev-1x", "42", "ev-99999999999999999999"})
    CHECK(ParseEvaluationId(text) == std::nullopt);
  for (const char* text : {"", "lease-3", "lease-3-", "lease--3", "lease-3-4-5", "lease-3-+4"})
    CHECK(ParseLeaseId(text) == std::nullopt);
}

TEST_CASE("Types: every value has a name", "[coordinator][core]") {
  CHECK(Name(Stage::kQueuedCompile) == "queued_compile");
  CHECK(Name(VerdictKind::kOutOfMemory) == "out_of_memory");
  CHECK(Name(Blame::kTask) == "task");
  CHECK(Name(WorkerKind::kGpu) == "gpu");
  CHECK(Name(WorkerState::kDraining) == "draining");
  CHECK(Name(LeaseKind::kBuild) == "build");
  CHECK(Name(RetryReason::kLeaseNotHeld) == "lease_not_held");
}

}  // namespace
}  // namespace pike::coordinator
