#pragma once

#include <cstddef>

namespace pike::cli {

// What the process tells its caller. Part of the documented interface: numbers never change.
enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,      // eval: at least one evaluation is not valid; elsewhere: it did not work
  kUsage = 2,        // bad arguments, input or policy; nothing was evaluated
  kUnreachable = 3,  // the service is not there, or went away for too long
  kInfra = 4,        // eval: an infra_error, or work that the service refused
  kInterrupted = 130,
};

// How the evaluations of one `pike eval` ended.
struct EvalCounts {
  size_t valid = 0;
  size_t not_valid = 0;  // every verdict that is the candidate's or the task's
  size_t infra_error = 0;
  size_t refused = 0;  // the service did not accept them
  size_t invalid = 0;  // of these, for what they say: no other time will do
  size_t cancelled = 0;
  size_t unfinished = 0;  // given up on: the service stayed away
  bool is_interrupted = false;

  // Whether nothing was evaluated because the request itself is wrong, a policy for example.
  bool is_all_invalid() const {
    return invalid > 0 && invalid == refused &&
           valid + not_valid + infra_error + cancelled + unfinished == 0;
  }
};

// The most serious fact wins: interrupted, unreachable, a wrong request, infra, not valid, ok.
ExitCode ExitCodeOf(const EvalCounts& counts);

}  // namespace pike::cli
