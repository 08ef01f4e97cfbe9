#pragma once

#include "gpu_worker/core/observation.h"

namespace pike::gpu {

// Whether the two clocks of a measurement tell the same story. A runner's own times are a claim: it
// shares its process with the candidate. The judge's times bound them from outside, but contain the
// protocol: copies of inputs and outputs, wake-ups, the snapshot. What the protocol takes is known
// from the reference's runner, which makes the same calls by the same harness, on the same inputs
// and as large outputs, in turn with the candidate.
struct ClockCheck {
  // Median of wall - claim over the reference's calls.
  double protocol_ns = 0;
  // How much later than claim + protocol the candidate's outputs came, as a mean over its calls,
  // beyond what the reference's own did. Negative if earlier.
  double gap_ns = 0;
  // What `gap_ns` may be: max(2 % of the candidate's claim plus gap, three standard errors of the
  // reference's own gaps, more with few calls, and `protocol_slack` times the protocol). Nothing of
  // the candidate's can widen it by more than it costs.
  double tolerance_ns = 0;

  bool AreAgreed() const { return gap_ns <= tolerance_ns; }
};

// The harness allocates and copies in the candidate's own heap, so its share varies with what the
// program did there before: on a GPU honest ones were seen to differ by up to a tenth of the
// protocol, on the CPU by as much as all of it (docs/adr/0014).
inline constexpr double kGpuProtocolSlack = 0.1;
inline constexpr double kCpuProtocolSlack = 1;

// REQUIRES: IsComplete(samples), and all are finite.
ClockCheck CheckClocks(const Samples& samples);

// The same without the calls, one of each twenty begun, in which the candidate's gap was largest,
// and likewise the reference's: a host that looks away once must not make anyone a cheat. Such a
// call counts for nothing at all, so a lie in it gains nothing. Below 20 calls all are kept. Pure.
// REQUIRES: as above.
Samples WithoutHiccups(const Samples& samples);

}  // namespace pike::gpu
