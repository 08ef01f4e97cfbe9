#include "gpu_worker/core/verdict.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <optional>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "common/base/text.h"
#include "gpu_worker/core/clocks.h"
#include "gpu_worker/core/floor.h"
#include "gpu_worker/core/statistics.h"

namespace pike::gpu {
namespace {

constexpr size_t kReasonBytesMax = 400;
constexpr size_t kSuspicionsMax = 8;

const char* Doing(Phase phase) {
  switch (phase) {
    case Phase::kLoad:
      return "while it was loaded";
    case Phase::kFirstCall:
      return "in the first call";
    case Phase::kVerify:
      return "in a verified call";
    case Phase::kMeasure:
      return "in a timed call";
    case Phase::kFinish:
      return "at the end";
  }
  return "";
}

// The last line of an exception's text says what went wrong; the whole is in the evidence.
std::string LastLine(const std::string& text) {
  size_t end = text.size();
  while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
    --end;
  if (end == 0)
    return "";
  const size_t newline = text.rfind('\n', end - 1);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return EscapeLine(text.substr(begin, std::min(end - begin, kReasonBytesMax)));
}

std::string ExceptionText(const Observation& seen) {
  const std::string line = LastLine(seen.text);
  return line.empty() ? EscapeLine(seen.error_type.substr(0, kReasonBytesMax)) : line;
}

std::string EndText(const ProcessFacts& process) {
  if (process.signal)
    return absl::StrCat("signal ", *process.signal);
  if (process.exit_status)
    return absl::StrCat("exit status ", *process.exit_status);
  return "it closed its channel";
}

Decision Candidate(VerdictKind kind, std::string reason) {
  return {kind, Blame::kCandidate, false, std::move(reason), {}};
}
Decision Task(std::string reason) {
  return {VerdictKind::kInfra, Blame::kTask, false, absl::StrCat("the task: ", reason), {}};
}
Decision Infrastructure(std::string reason) {
  return {VerdictKind::kInfra, Blame::kInfrastructure, true, std::move(reason), {}};
}

Decision OfCandidateLoad(const Observation& seen) {
  if (seen.is_memory_exception)
    return Candidate(VerdictKind::kOutOfMemory,
                     absl::StrCat("out of memory ", Doing(seen.phase), ": ", ExceptionText(seen)));
  if (seen.load_where == "parse")
    return Candidate(VerdictKind::kUnparsable, absl::StrCat("not Python: ", ExceptionText(seen)));
  if (seen.load_where == "entry")
    return Candidate(VerdictKind::kUnparsable, "it defines neither ModelNew nor Model");
  const bool is_constructor = seen.load_where == "constructor";
  return Candidate(VerdictKind::kLoadError,
                   absl::StrCat(is_constructor ? "the constructor failed: " : "the import failed: ",
                                ExceptionText(seen)));
}

// By how much the two clocks disagree.
std::string GapText(const Samples& samples, const ClockCheck& clocks) {
  const double claimed_ms = Summarize(samples.candidate_claim_ns).mean_ns / 1e6;
  return absl::StrFormat(
      "it claims %.4g ms a call, by the judge's clock it took %.4g ms (tolerance %.2g ms)",
      claimed_ms, claimed_ms + clocks.gap_ns / 1e6, clocks.tolerance_ns / 1e6);
}

std::string FloorText(const Samples& samples, double floor_ns) {
  return absl::StrFormat(
      "it claims %.4g ms a call, but reading the inputs and writing the outputs once takes at "
      "least "
      "%.4g ms on this device",
      Summarize(samples.candidate_claim_ns).mean_ns / 1e6, floor_ns / 1e6);
}

Decision OfSamples(const Observation& seen) {
  const Samples& samples = seen.samples;
  if (!IsComplete(samples))
    return Infrastructure("the judge reported no complete samples");
  std::vector<std::string> complaints = FindImpossibleClaims(samples);
  if (complaints.empty()) {
    const Samples rest = WithoutHiccups(samples);
    const ClockCheck clocks = CheckClocks(rest);
    if (!clocks.AreAgreed())
      complaints.push_back(GapText(rest, clocks));
    else if (IsBelowFloor(samples, seen.floor_ns))
      complaints.push_back(FloorText(rest, seen.floor_ns));
    else
      return {VerdictKind::kValid, Blame::kNone, false, "", {}};
  }
  Decision decision =
      Candidate(VerdictKind::kSuspect, absl::StrCat("a claimed time cannot be: ", complaints[0]));
  decision.suspicions = std::move(complaints);
  return decision;
}

Decision OfCandidate(const Observation& seen) {
  if (seen.process.memory_limit_hit)
    return Candidate(VerdictKind::kOutOfMemory,
                     absl::StrCat("its memory limit was hit ", Doing(seen.phase)));
  switch (seen.event) {
    case Event::kLoadFailed:
      return OfCandidateLoad(seen);
    case Event::kProcessGone: {
      const bool is_load = seen.phase == Phase::kLoad;
      Decision decision = Candidate(
          is_load ? VerdictKind::kLoadError : VerdictKind::kRuntimeError,
          absl::StrCat("its process ended ", Doing(seen.phase), " (", EndText(seen.process), ")"));
      decision.should_repeat = seen.process.signal == SIGKILL;
      return decision;
    }
    case Event::kDeadline:
      return Candidate(VerdictKind::kTimeout, absl::StrCat("too slow ", Doing(seen.phase)));
    case Event::kCallFailed:
      return Candidate(
          seen.is_memory_exception ? VerdictKind::kOutOfMemory : VerdictKind::kRuntimeError,
          absl::StrCat(seen.is_memory_exception ? "out of memory " : "it raised ",
                       Doing(seen.phase), ": ", ExceptionText(seen)));
    case Event::kMismatch:
      if (seen.is_reference_mismatch)
        return Task("its reference disagrees with itself, so it judges nobody");
      return Candidate(VerdictKind::kIncorrect, LastLine(seen.text));
    case Event::kViolation: {
      Decision decision = Candidate(VerdictKind::kSuspect,
                                    absl::StrCat("it broke the call protocol ", Doing(seen.phase),
                                                 ": ", LastLine(seen.text)));
      decision.suspicions.push_back(LastLine(seen.text));
      return decision;
    }
    case Event::kWorkLeft:
      if (seen.is_memory_exception)
        return Candidate(VerdictKind::kOutOfMemory,
                         absl::StrCat("it left too little of the device's memory to time it: ",
                                      LastLine(seen.text)));
      return Candidate(
          VerdictKind::kTimeout,
          absl::StrCat("work that it had left on the device did not end: ", LastLine(seen.text)));
    case Event::kDone:
    case Event::kTaskFailed:
    case Event::kJudgeStuck:
    case Event::kEnvironment:
    case Event::kDeviceFault:
    case Event::kCancelled:
      break;
  }
  return Infrastructure(LastLine(seen.text));
}

// The reference's runner: a failure is the task's where the task's own code decided it.
Decision OfReference(const Observation& seen) {
  const std::string where = absl::StrCat("its reference ", Doing(seen.phase), ": ");
  if (seen.process.memory_limit_hit)
    return Task(absl::StrCat(where, "memory limit hit"));
  switch (seen.event) {
    case Event::kLoadFailed:
      if (seen.load_where == "harness")
        return Infrastructure(absl::StrCat("the reference's runner: ", LastLine(seen.text)));
      return Task(absl::StrCat(where, ExceptionText(seen)));
    case Event::kDeadline:
      return Task(absl::StrCat(where, "too slow"));
    case Event::kCallFailed:
      return Task(absl::StrCat(where, ExceptionText(seen)));
    case Event::kMismatch:
      return Task("its reference disagrees with itself, so it judges nobody");
    case Event::kProcessGone:
      return Infrastructure(absl::StrCat("the reference's runner ended ", Doing(seen.phase), " (",
                                         EndText(seen.process), ")"));
    case Event::kViolation:
      return Infrastructure(absl::StrCat("the reference's runner: ", LastLine(seen.text)));
    case Event::kWorkLeft:
      return Task(absl::StrCat(where, "work left on the device: ", LastLine(seen.text)));
    case Event::kDone:
    case Event::kTaskFailed:
    case Event::kJudgeStuck:
    case Event::kEnvironment:
    case Event::kDeviceFault:
    case Event::kCancelled:
      break;
  }
  return Infrastructure(LastLine(seen.text));
}

Decision OfJudge(const Observation& seen) {
  if (seen.process.memory_limit_hit)
    return Task(absl::StrCat("the judge's memory limit was hit ", Doing(seen.phase)));
  if (seen.event == Event::kProcessGone)
    return Infrastructure(
        absl::StrCat("the judge ended ", Doing(seen.phase), " (", EndText(seen.process), ")"));
  return Infrastructure(LastLine(seen.text));
}

Decision DecideAsSeen(const Observation& seen) {
  switch (seen.event) {
    case Event::kCancelled:
      return {VerdictKind::kCancelled, Blame::kNone, false, "", {}};
    case Event::kTaskFailed:
      return Task(absl::StrCat(Doing(seen.phase), ": ", ExceptionText(seen)));
    case Event::kJudgeStuck:
      return Infrastructure(absl::StrCat("the judge did not answer ", Doing(seen.phase)));
    case Event::kEnvironment:
      return Infrastructure(LastLine(seen.text));
    case Event::kDeviceFault:
      return Infrastructure(absl::StrCat("the device: ", LastLine(seen.text)));
    case Event::kDone:
      return OfSamples(seen);
    case Event::kLoadFailed:
    case Event::kProcessGone:
    case Event::kDeadline:
    case Event::kMismatch:
    case Event::kCallFailed:
    case Event::kViolation:
    case Event::kWorkLeft:
      break;
  }
  switch (seen.side) {
    case Side::kCandidate:
      return OfCandidate(seen);
    case Side::kReference:
      return OfReference(seen);
    case Side::kJudge:
      return OfJudge(seen);
    case Side::kNone:
      break;
  }
  if (seen.event == Event::kWorkLeft)
    return Infrastructure(absl::StrCat("the device, beside others: ", LastLine(seen.text)));
  return Infrastructure(absl::StrCat("an outcome of no side ", Doing(seen.phase)));
}

}  // namespace

std::vector<std::string> FindImpossibleClaims(const Samples& samples) {
  std::vector<std::string> complaints;
  for (size_t i = 0; i < samples.candidate_claim_ns.size(); ++i) {
    const double claim = samples.candidate_claim_ns[i];
    const double wall = i < samples.candidate_wall_ns.size() ? samples.candidate_wall_ns[i] : 0;
    if (std::isfinite(claim) && claim > 0 && claim <= wall)
      continue;
    complaints.push_back(absl::StrCat("timed call ", i + 1, ": claims ", claim / 1e6,
                                      " ms, the judge's clock says ", wall / 1e6, " ms"));
    if (complaints.size() >= kSuspicionsMax)
      break;
  }
  return complaints;
}

Decision Decide(const Observation& seen) {
  Decision decision = DecideAsSeen(seen);
  // Neither is held against anyone before it happened without neighbours.
  const bool can_be_a_neighbour =
      seen.is_memory_exception || (seen.event == Event::kWorkLeft && seen.side == Side::kNone);
  decision.should_repeat_alone = can_be_a_neighbour && seen.has_company;
  return decision;
}

}  // namespace pike::gpu
