#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu_worker/core/observation.h"
#include "gpu_worker/core/statistics.h"

namespace pike::gpu {

enum class VerdictKind : uint8_t {
  kValid,
  kIncorrect,
  kLoadError,
  kRuntimeError,
  kTimeout,
  kOutOfMemory,
  kUnparsable,
  kSuspect,
  kInfra,  // nothing was decided; see is_retryable
  kCancelled,
};

enum class Blame : uint8_t { kNone, kCandidate, kInfrastructure, kTask };

// What an observation means.
struct Decision {
  VerdictKind kind = VerdictKind::kInfra;
  Blame blame = Blame::kInfrastructure;
  bool is_retryable = true;             // of kInfra: whether another attempt can help
  std::string reason;                   // one line, printable; empty for kValid
  std::vector<std::string> suspicions;  // of kSuspect: the numbers, one line each
  // A process that was killed by SIGKILL: the candidate can do that to itself, and so can the
  // host's administrator or its out-of-memory killer. Only a repetition blames the candidate.
  bool should_repeat = false;
  // The device's memory ran out while others used it, too: nobody is blamed before it was tried
  // with the device to itself.
  bool should_repeat_alone = false;
};

// Derives the verdict: a pure function of where something was seen, never of printed text.
//
//   seen                                   candidate           reference         judge
//   memory limit hit                       out_of_memory       infra, task       infra, task
//   load failed: parse, entry              unparsable          infra, task
//   load failed: import, constructor       load_error          infra, task
//   load failed: task, harness             load_error (a)      infra (b)
//   process gone in load                   load_error (e)      infra, retry      infra, retry
//   process gone in a call                 runtime_error (e)   infra, retry      infra, retry
//   deadline                               timeout             infra, task       infra, retry
//   call raised                            runtime_error (c)   infra, task
//   wrong outputs                          incorrect (d)       infra, task
//   record out of turn                     suspect             infra, retry
//   done                                   valid, or suspect if a claimed time cannot be
//
// (a) The reference's runner loaded the same task by the same harness, so the claim is the
//     candidate's own. (b) "task" is the task's fault, "harness" ours. (c) out_of_memory where the
//     harness saw a memory exception; so in load. (d) infra, task, if the reference disagrees with
//     itself: such a task judges nobody. (e) should_repeat if it was SIGKILL.
Decision Decide(const Observation& observation);

// The complaint about samples that cannot be true, one line each; empty if there is none: not
// finite, not positive, or longer than the judge's own clock around the call.
std::vector<std::string> FindImpossibleClaims(const Samples& samples);

}  // namespace pike::gpu
