#include "cli/eval/session.h"
#include "tests/testing/catch.h"

namespace pike::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

v1::EvaluationRecord Record(const std::string& id, v1::Stage stage) {
  v1::EvaluationRecord record;
  record.set_evaluation_id(id);
  record.set_stage(stage);
  return record;
}

v1::EvaluationRecord Ended(const std::string& id, v1::VerdictKind kind) {
  v1::EvaluationRecord record = Record(id, v1::STAGE_ENDED);
  record.mutable_verdict()->set_kind(kind);
  return record;
}

template <typename Command>
std::vector<Command> Only(const std::vector<SessionCommand>& commands) {
  std::vector<Command> found;
  for (const SessionCommand& command : commands) {
    if (const auto* match = std::get_if<Command>(&command))
      found.push_back(*match);
  }
  return found;
}

// A session whose items were accepted as e0, e1, ... and are watched.
EvalSession WatchedSession(size_t items, MonoTime now) {
  EvalSession session(items, SessionLimits(), now);
  for (const auto& submit : Only<SubmitItem>(session.TakeCommands(now))) {
    session.OnSubmitted(submit.item,
                        Record("e" + std::to_string(submit.item), v1::STAGE_QUEUED_COMPILE), now);
  }
  REQUIRE(Only<WatchItem>(session.TakeCommands(now)).size() == items);
  return session;
}

const MonoTime kStart{};

}  // namespace

TEST_CASE("EvalSession: submits, watches and ends", "[cli]") {
  EvalSession session = WatchedSession(2, kStart);
  session.OnUpdate(0, Record("e0", v1::STAGE_COMPILE), kStart);
  CHECK(session.record(0).stage() == v1::STAGE_COMPILE);
  session.OnUpdate(0, Ended("e0", v1::VERDICT_KIND_VALID), kStart);
  session.OnWatchEnded(0, absl::OkStatus(), kStart);
  CHECK_FALSE(session.is_done());
  session.OnUpdate(1, Ended("e1", v1::VERDICT_KIND_INCORRECT), kStart);
  CHECK(session.is_done());
  CHECK(session.Count().valid == 1);
  CHECK(session.Count().not_valid == 1);
  CHECK(ExitCodeOf(session.Count()) == ExitCode::kFailure);
}

TEST_CASE("EvalSession: an evaluation that had already ended needs no watch", "[cli]") {
  EvalSession session(1, SessionLimits(), kStart);
  session.TakeCommands(kStart);
  session.OnSubmitted(0, Ended("e0", v1::VERDICT_KIND_VALID), kStart);
  CHECK(session.is_done());
  CHECK(session.TakeCommands(kStart).empty());
}

TEST_CASE("EvalSession: no more than the limit is in flight", "[cli]") {
  SessionLimits limits;
  limits.in_flight_max = 2;
  EvalSession session(3, limits, kStart);
  CHECK(Only<SubmitItem>(session.TakeCommands(kStart)).size() == 2);
  session.OnSubmitted(0, Ended("e0", v1::VERDICT_KIND_VALID), kStart);
  const auto next = Only<SubmitItem>(session.TakeCommands(kStart));
  REQUIRE(next.size() == 1);
  CHECK(next[0].item == 2);
}

TEST_CASE("EvalSession: a broken watch is opened again after a pause", "[cli]") {
  EvalSession session = WatchedSession(2, kStart);
  session.OnWatchEnded(0, absl::UnavailableError("gone"), kStart);
  session.OnWatchEnded(1, absl::OkStatus(), kStart);  // an early end of a stream is a loss too
  CHECK(session.TakeCommands(kStart).empty());
  REQUIRE(session.NextWake() == kStart + milliseconds(100));
  const auto watches = Only<WatchItem>(session.TakeCommands(kStart + milliseconds(100)));
  REQUIRE(watches.size() == 2);
  CHECK(watches[0].evaluation_id == "e0");
  session.OnUpdate(0, Record("e0", v1::STAGE_VERIFY), kStart + milliseconds(200));
  CHECK_FALSE(session.unreachable_since().has_value());
}

TEST_CASE("EvalSession: a lost submission is repeated", "[cli]") {
  EvalSession session(1, SessionLimits(), kStart);
  session.TakeCommands(kStart);
  session.OnSubmitted(0, absl::DeadlineExceededError("slow"), kStart);
  CHECK(session.TakeCommands(kStart).empty());
  CHECK(Only<SubmitItem>(session.TakeCommands(kStart + seconds(1))).size() == 1);
}

TEST_CASE("EvalSession: gives up once the service stayed away for too long", "[cli]") {
  EvalSession session = WatchedSession(1, kStart);
  MonoTime now = kStart;
  while (!session.is_done() && now < kStart + seconds(600)) {
    for (const auto& watch : Only<WatchItem>(session.TakeCommands(now)))
      session.OnWatchEnded(watch.item, absl::UnavailableError("gone"), now);
    if (session.unreachable_since() == std::nullopt)
      session.OnWatchEnded(0, absl::UnavailableError("gone"), now);
    now += milliseconds(50);
  }
  CHECK(now >= kStart + seconds(120));
  CHECK(now < kStart + seconds(121));
  CHECK(session.Count().unfinished == 1);
  CHECK(ExitCodeOf(session.Count()) == ExitCode::kUnreachable);
}

TEST_CASE("EvalSession: a full queue delays submissions and nothing else", "[cli]") {
  EvalSession session(2, SessionLimits(), kStart);
  session.TakeCommands(kStart);
  session.OnSubmitted(0, Record("e0", v1::STAGE_QUEUED_COMPILE), kStart);
  session.OnSubmitted(1, absl::ResourceExhaustedError("queue full"), kStart);
  const auto commands = session.TakeCommands(kStart);
  CHECK(Only<WatchItem>(commands).size() == 1);
  CHECK(Only<SubmitItem>(commands).empty());
  CHECK_FALSE(session.unreachable_since().has_value());
  CHECK(Only<SubmitItem>(session.TakeCommands(kStart + seconds(2))).size() == 1);
}

TEST_CASE("EvalSession: a refused item ends with the service's words", "[cli]") {
  EvalSession session(1, SessionLimits(), kStart);
  session.TakeCommands(kStart);
  session.OnSubmitted(0, absl::FailedPreconditionError("no worker has class H200"), kStart);
  CHECK(session.is_done());
  CHECK(session.refusal(0).message() == "no worker has class H200");
  CHECK(ExitCodeOf(session.Count()) == ExitCode::kInfra);
}

TEST_CASE("EvalSession: an evaluation the service forgot ends as refused", "[cli]") {
  EvalSession session = WatchedSession(1, kStart);
  session.OnWatchEnded(0, absl::NotFoundError("no evaluation e0"), kStart);
  CHECK(session.is_done());
  CHECK(session.Count().refused == 1);
}

TEST_CASE("EvalSession: an interrupt cancels what was submitted", "[cli]") {
  SessionLimits limits;
  limits.in_flight_max = 1;
  EvalSession session(2, limits, kStart);
  session.TakeCommands(kStart);
  session.OnSubmitted(0, Record("e0", v1::STAGE_QUEUED_COMPILE), kStart);
  session.TakeCommands(kStart);
  session.Interrupt(kStart);
  const auto cancels = Only<CancelItem>(session.TakeCommands(kStart));
  REQUIRE(cancels.size() == 1);
  CHECK(cancels[0].evaluation_id == "e0");
  CHECK(session.is_item_ended(1));
  SECTION("the answer ends it") {
    session.OnCancelled(0, Ended("e0", v1::VERDICT_KIND_CANCELLED), kStart);
    session.OnWatchEnded(0, absl::OkStatus(), kStart);
    CHECK(session.is_done());
  }
  SECTION("a lost answer is asked for again") {
    session.OnCancelled(0, absl::UnavailableError("gone"), kStart);
    CHECK(Only<CancelItem>(session.TakeCommands(kStart + seconds(1))).size() == 1);
  }
  SECTION("a silent service is left after a while") {
    session.TakeCommands(kStart + seconds(10));
    CHECK(session.is_done());
  }
  CHECK(ExitCodeOf(session.Count()) == ExitCode::kInterrupted);
}

TEST_CASE("EvalSession: a submission with a lost answer is found and cancelled", "[cli]") {
  EvalSession session(1, SessionLimits(), kStart);
  session.TakeCommands(kStart);
  session.OnSubmitted(0, absl::DeadlineExceededError("slow"), kStart);
  session.Interrupt(kStart);
  MonoTime now = kStart + seconds(1);
  REQUIRE(Only<SubmitItem>(session.TakeCommands(now)).size() == 1);
  session.OnSubmitted(0, Record("e0", v1::STAGE_COMPILE), now);
  CHECK(Only<CancelItem>(session.TakeCommands(now)).size() == 1);
}

TEST_CASE("ExitCodeOf: the most serious fact wins", "[cli]") {
  EvalCounts counts;
  CHECK(ExitCodeOf(counts) == ExitCode::kOk);
  counts.not_valid = 1;
  CHECK(ExitCodeOf(counts) == ExitCode::kFailure);
  counts.infra_error = 1;
  CHECK(ExitCodeOf(counts) == ExitCode::kInfra);
  counts.unfinished = 1;
  CHECK(ExitCodeOf(counts) == ExitCode::kUnreachable);
  counts.is_interrupted = true;
  CHECK(ExitCodeOf(counts) == ExitCode::kInterrupted);
}

}  // namespace pike::cli
