#include "gpu_worker/core/verdict.h"

#include <limits>
#include <string>
#include <vector>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

struct Row {
  const char* name;
  Observation seen;
  VerdictKind kind;
  Blame blame;
  bool is_retryable;
};

Observation Seen(Event event, Phase phase, Side side) {
  Observation seen;
  seen.event = event;
  seen.phase = phase;
  seen.side = side;
  seen.text = "Traceback\nValueError: no";
  return seen;
}

Observation LoadFailed(Side side, const char* where, bool is_memory = false) {
  Observation seen = Seen(Event::kLoadFailed, Phase::kLoad, side);
  seen.load_where = where;
  seen.is_memory_exception = is_memory;
  return seen;
}

Observation Gone(Phase phase, Side side, int exit_status, int signal, bool limit_hit = false) {
  Observation seen = Seen(Event::kProcessGone, phase, side);
  if (signal != 0)
    seen.process.signal = signal;
  else
    seen.process.exit_status = exit_status;
  seen.process.memory_limit_hit = limit_hit;
  return seen;
}

Observation MemoryCall() {
  Observation seen = Seen(Event::kCallFailed, Phase::kVerify, Side::kCandidate);
  seen.is_memory_exception = true;
  return seen;
}

Observation Unstable() {
  Observation seen = Seen(Event::kMismatch, Phase::kVerify, Side::kCandidate);
  seen.is_reference_mismatch = true;
  return seen;
}

Observation OverLimit(Event event, Phase phase, Side side) {
  Observation seen = Seen(event, phase, side);
  seen.process.memory_limit_hit = true;
  return seen;
}

// The reference's protocol takes 1 ms.
Observation Done(std::vector<double> claims, std::vector<double> walls) {
  Observation seen = Seen(Event::kDone, Phase::kFinish, Side::kNone);
  std::vector<double> reference_claims = walls;
  for (double& claim : reference_claims)
    claim -= 1e6;
  seen.samples = {.candidate_claim_ns = std::move(claims),
                  .candidate_wall_ns = walls,
                  .reference_claim_ns = std::move(reference_claims),
                  .reference_wall_ns = walls,
                  .candidate_copy_ns = {},
                  .reference_copy_ns = {},
                  .candidate_return_ns = {},
                  .reference_return_ns = {},
                  .protocol_slack = 0};
  return seen;
}

std::vector<Row> Table() {
  using enum Phase;
  using enum Side;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto candidate = Blame::kCandidate;
  const auto infra = Blame::kInfrastructure;
  return {
      {"syntax", LoadFailed(kCandidate, "parse"), VerdictKind::kUnparsable, candidate, false},
      {"no entry", LoadFailed(kCandidate, "entry"), VerdictKind::kUnparsable, candidate, false},
      {"import", LoadFailed(kCandidate, "import"), VerdictKind::kLoadError, candidate, false},
      {"constructor", LoadFailed(kCandidate, "constructor"), VerdictKind::kLoadError, candidate,
       false},
      {"constructor out of memory", LoadFailed(kCandidate, "constructor", true),
       VerdictKind::kOutOfMemory, candidate, false},
      {"candidate blames the task", LoadFailed(kCandidate, "task"), VerdictKind::kLoadError,
       candidate, false},
      {"candidate blames the harness", LoadFailed(kCandidate, "harness"), VerdictKind::kLoadError,
       candidate, false},
      {"reference import", LoadFailed(kReference, "import"), VerdictKind::kInfra, Blame::kTask,
       false},
      {"reference harness", LoadFailed(kReference, "harness"), VerdictKind::kInfra, infra, true},
      {"exit 0 in load", Gone(kLoad, kCandidate, 0, 0), VerdictKind::kLoadError, candidate, false},
      {"signal in load", Gone(kLoad, kCandidate, 0, 11), VerdictKind::kLoadError, candidate, false},
      {"memory limit in load", Gone(kLoad, kCandidate, 0, 9, true), VerdictKind::kOutOfMemory,
       candidate, false},
      {"exit 0 in a call", Gone(kFirstCall, kCandidate, 0, 0), VerdictKind::kRuntimeError,
       candidate, false},
      {"signal in a call", Gone(kVerify, kCandidate, 0, 11), VerdictKind::kRuntimeError, candidate,
       false},
      {"memory limit in a call", Gone(kMeasure, kCandidate, 0, 9, true), VerdictKind::kOutOfMemory,
       candidate, false},
      {"memory limit while slow", OverLimit(Event::kDeadline, kVerify, kCandidate),
       VerdictKind::kOutOfMemory, candidate, false},
      {"reference gone", Gone(kVerify, kReference, 0, 9), VerdictKind::kInfra, infra, true},
      {"reference over its limit", Gone(kVerify, kReference, 0, 9, true), VerdictKind::kInfra,
       Blame::kTask, false},
      {"judge gone", Gone(kVerify, kJudge, 0, 9), VerdictKind::kInfra, infra, true},
      {"judge over its limit", Gone(kVerify, kJudge, 0, 9, true), VerdictKind::kInfra, Blame::kTask,
       false},
      {"judge stuck", Seen(Event::kJudgeStuck, kVerify, kJudge), VerdictKind::kInfra, infra, true},
      {"judge stuck before the first call", Seen(Event::kJudgeStuck, kLoad, kJudge),
       VerdictKind::kInfra, infra, true},
      {"load deadline", Seen(Event::kDeadline, kLoad, kCandidate), VerdictKind::kTimeout, candidate,
       false},
      {"call deadline", Seen(Event::kDeadline, kVerify, kCandidate), VerdictKind::kTimeout,
       candidate, false},
      {"work left", Seen(Event::kWorkLeft, kMeasure, kCandidate), VerdictKind::kTimeout, candidate,
       false},
      {"the reference left work", Seen(Event::kWorkLeft, kMeasure, kReference), VerdictKind::kInfra,
       Blame::kTask, false},
      {"somebody left work", Seen(Event::kWorkLeft, kMeasure, kNone), VerdictKind::kInfra, infra,
       true},
      {"reference deadline", Seen(Event::kDeadline, kVerify, kReference), VerdictKind::kInfra,
       Blame::kTask, false},
      {"call raised", Seen(Event::kCallFailed, kVerify, kCandidate), VerdictKind::kRuntimeError,
       candidate, false},
      {"call out of memory", MemoryCall(), VerdictKind::kOutOfMemory, candidate, false},
      {"reference raised", Seen(Event::kCallFailed, kVerify, kReference), VerdictKind::kInfra,
       Blame::kTask, false},
      {"wrong outputs", Seen(Event::kMismatch, kVerify, kCandidate), VerdictKind::kIncorrect,
       candidate, false},
      {"wrong outputs in timing", Seen(Event::kMismatch, kMeasure, kCandidate),
       VerdictKind::kIncorrect, candidate, false},
      {"reference disagrees with itself", Unstable(), VerdictKind::kInfra, Blame::kTask, false},
      {"reference wrong", Seen(Event::kMismatch, kVerify, kReference), VerdictKind::kInfra,
       Blame::kTask, false},
      {"record too early", Seen(Event::kViolation, kMeasure, kCandidate), VerdictKind::kSuspect,
       candidate, false},
      {"reference record too early", Seen(Event::kViolation, kMeasure, kReference),
       VerdictKind::kInfra, infra, true},
      {"task failed", Seen(Event::kTaskFailed, kVerify, kJudge), VerdictKind::kInfra, Blame::kTask,
       false},
      {"no sandbox", Seen(Event::kEnvironment, kLoad, kNone), VerdictKind::kInfra, infra, true},
      {"cancelled", Seen(Event::kCancelled, kVerify, kNone), VerdictKind::kCancelled, Blame::kNone,
       false},
      {"good", Done({1e6, 2e6}, {2e6, 3e6}), VerdictKind::kValid, Blame::kNone, false},
      {"claims that the judge's clock denies", Done({1e5, 1e5}, {2e6, 3e6}), VerdictKind::kSuspect,
       candidate, false},
      {"claim above the wall", Done({1e6, 4e6}, {2e6, 3e6}), VerdictKind::kSuspect, candidate,
       false},
      {"claim of nothing", Done({0, 1e6}, {2e6, 3e6}), VerdictKind::kSuspect, candidate, false},
      {"negative claim", Done({-1, 1e6}, {2e6, 3e6}), VerdictKind::kSuspect, candidate, false},
      {"claim is not a number", Done({nan, 1e6}, {2e6, 3e6}), VerdictKind::kSuspect, candidate,
       false},
      {"infinite claim", Done({inf, 1e6}, {2e6, 3e6}), VerdictKind::kSuspect, candidate, false},
      {"no samples", Done({}, {}), VerdictKind::kInfra, infra, true},
      {"samples of one side only", Done({1e6}, {2e6, 3e6}), VerdictKind::kInfra, infra, true},
  };
}

TEST_CASE("Verdict: every observation has one meaning") {
  for (const Row& row : Table()) {
    INFO(row.name);
    const Decision decision = Decide(row.seen);
    CHECK(decision.kind == row.kind);
    CHECK(decision.blame == row.blame);
    CHECK(decision.is_retryable == row.is_retryable);
    const bool is_silent = row.kind == VerdictKind::kValid || row.kind == VerdictKind::kCancelled;
    CHECK(decision.reason.empty() == is_silent);
    CHECK(decision.reason.find('\n') == std::string::npos);
  }
}

TEST_CASE("Verdict: what a candidate prints decides nothing") {
  Observation seen = Gone(Phase::kVerify, Side::kCandidate, 1, 0);
  seen.text = "CUDA out of memory\nMemoryError\ninfrastructure failure";
  CHECK(Decide(seen).kind == VerdictKind::kRuntimeError);
}

TEST_CASE("Verdict: hostile text becomes one printable line") {
  Observation seen = Seen(Event::kCallFailed, Phase::kVerify, Side::kCandidate);
  seen.text = std::string("a\n\x1b[2J\xff\x00z", 9) + std::string(100000, 'x');
  const std::string reason = Decide(seen).reason;
  CHECK(reason.size() < 2000);
  for (const char c : reason)
    CHECK(static_cast<unsigned char>(c) >= 0x20);
}

TEST_CASE("Verdict: the numbers behind a suspicion are kept, and bounded") {
  Observation seen = Done(std::vector<double>(100, 5e6), std::vector<double>(100, 1e6));
  const Decision decision = Decide(seen);
  CHECK(decision.suspicions.size() == 8);
  CHECK(decision.suspicions[0] == "timed call 1: claims 5 ms, the judge's clock says 1 ms");
}

TEST_CASE("Decide: only SIGKILL asks for a repetition before it blames the candidate",
          "[gpu_worker]") {
  const Decision killed = Decide(Gone(Phase::kMeasure, Side::kCandidate, 0, 9));
  CHECK(killed.kind == VerdictKind::kRuntimeError);
  CHECK(killed.should_repeat);
  CHECK_FALSE(Decide(Gone(Phase::kMeasure, Side::kCandidate, 0, 11)).should_repeat);
  CHECK_FALSE(Decide(Gone(Phase::kMeasure, Side::kCandidate, 0, 9, true)).should_repeat);
}

TEST_CASE("Decide: memory that ran out beside others is tried again alone", "[gpu_worker]") {
  Observation seen;
  seen.event = Event::kCallFailed;
  seen.phase = Phase::kVerify;
  seen.side = Side::kCandidate;
  seen.is_memory_exception = true;
  CHECK_FALSE(Decide(seen).should_repeat_alone);
  seen.has_company = true;
  CHECK(Decide(seen).should_repeat_alone);
  CHECK(Decide(seen).kind == VerdictKind::kOutOfMemory);
  seen.is_memory_exception = false;
  CHECK_FALSE(Decide(seen).should_repeat_alone);
}

TEST_CASE("Decide: work left on the device is held against one whose it is", "[gpu_worker]") {
  Observation seen;
  seen.event = Event::kWorkLeft;
  seen.phase = Phase::kMeasure;
  seen.has_company = true;
  CHECK(Decide(seen).should_repeat_alone);
  seen.side = Side::kCandidate;
  CHECK_FALSE(Decide(seen).should_repeat_alone);
  CHECK(Decide(seen).kind == VerdictKind::kTimeout);
  seen.is_memory_exception = true;
  CHECK(Decide(seen).kind == VerdictKind::kOutOfMemory);
  CHECK(Decide(seen).blame == Blame::kCandidate);
}

TEST_CASE("Decide: a fault of the device is nobody's verdict", "[gpu_worker]") {
  Observation seen;
  seen.event = Event::kDeviceFault;
  for (const Side side : {Side::kNone, Side::kJudge, Side::kCandidate}) {
    seen.side = side;
    seen.text = "an illegal memory access was encountered";
    const Decision decision = Decide(seen);
    CHECK(decision.kind == VerdictKind::kInfra);
    CHECK(decision.is_retryable);
    CHECK(decision.reason == "the device: an illegal memory access was encountered");
  }
}

}  // namespace
}  // namespace pike::gpu
