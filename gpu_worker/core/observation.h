#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pike::gpu {

// What was going on when an observation was made, in order.
enum class Phase : uint8_t { kLoad, kFirstCall, kVerify, kMeasure, kFinish };

// Whose process an observation is about.
enum class Side : uint8_t { kNone, kCandidate, kReference, kJudge };

// What was seen. Facts of the supervisor and words of the judge are trusted; what a runner itself
// says can only harm its own candidate.
enum class Event : uint8_t {
  kDone,         // every operation ended without a complaint
  kLoadFailed,   // a runner says its load failed, see `load_where`
  kProcessGone,  // end of file, or a frame that is not ours
  kDeadline,     // a deadline of the policy passed
  kMismatch,     // the judge found wrong outputs
  kCallFailed,   // a call raised, as the runner's harness saw it
  kViolation,    // a record out of turn on the call channel
  kTaskFailed,   // the judge says that the task's own code failed
  kJudgeStuck,   // the judge did not answer in time
  kEnvironment,  // a sandbox, a file or a socket of ours failed
  kDeviceFault,  // the device itself failed, is lost, or does not come to rest
  kWorkLeft,     // what `side` had left on the device kept it from rest; kNone: somebody there had
  kCancelled,    // nobody wants the outcome any more
};

// How the process of `Observation::side` ended, as the sandbox saw it.
struct ProcessFacts {
  std::optional<int> exit_status;  // ended by itself
  std::optional<int> signal;       // ended by a signal that was not ours
  bool memory_limit_hit = false;
  uint64_t memory_peak_bytes = 0;  // 0: not known
};

// Raw timed calls of both sides, in nanoseconds. `claim` is the runner's clock, `wall` the judge's,
// `copy` what of it the judge copied the outputs (0 on a GPU), `return` the runner's until the call
// returned to the host (0 on the CPU).
struct Samples {
  std::vector<double> candidate_claim_ns;
  std::vector<double> candidate_wall_ns;
  std::vector<double> reference_claim_ns;
  std::vector<double> reference_wall_ns;
  std::vector<double> candidate_copy_ns;
  std::vector<double> reference_copy_ns;
  std::vector<double> candidate_return_ns;
  std::vector<double> reference_return_ns;
  // By what part of the protocol's time honest programs may differ; see CheckClocks.
  double protocol_slack = 0;
};

// Whether there are timed calls, and claim and wall of each side for each. Copies are of all or
// none.
inline bool IsComplete(const Samples& samples) {
  const size_t calls = samples.candidate_claim_ns.size();
  const auto is_copied = [calls](const std::vector<double>& copies) {
    return copies.empty() || copies.size() == calls;
  };
  return calls > 0 && samples.candidate_wall_ns.size() == calls &&
         samples.reference_claim_ns.size() == calls && samples.reference_wall_ns.size() == calls &&
         is_copied(samples.candidate_copy_ns) && is_copied(samples.reference_copy_ns);
}

// The one thing that ended an evaluation.
struct Observation {
  Event event = Event::kEnvironment;
  Phase phase = Phase::kLoad;
  Side side = Side::kNone;
  // Of kLoadFailed: "parse", "import", "entry", "task", "constructor" or "harness".
  std::string load_where;
  // Of kLoadFailed and kCallFailed: the harness saw an exception that says "no memory". Of
  // kWorkLeft: what was left is memory.
  bool is_memory_exception = false;
  // Others were on the device, so its memory was not this evaluation's alone.
  bool has_company = false;
  // Of kDeviceFault: a process that was killed hangs in the driver.
  bool is_process_stuck = false;
  std::string error_type;  // of an exception; untrusted
  std::string text;        // untrusted where `side` is a runner's; one line or a traceback
  ProcessFacts process;
  // The reference's own runner disagreed with the judge's reference, too.
  bool is_reference_mismatch = false;
  Samples samples;  // of kDone
  // No call can take less, see FindFloorNs; 0: not known.
  double floor_ns = 0;
};

}  // namespace pike::gpu
