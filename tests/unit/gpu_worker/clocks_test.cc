#include "gpu_worker/core/clocks.h"

#include <random>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

using testing::Approx;

constexpr double kMs = 1e6;

// `calls` calls: claims and what the judge saw beyond them, in ms, alternating between two values.
Samples SamplesOf(size_t calls, double candidate_ms, double candidate_gap_ms) {
  Samples samples;
  for (size_t i = 0; i < calls; ++i) {
    const double jitter = i % 2 == 0 ? 0.01 : -0.01;
    samples.candidate_claim_ns.push_back(candidate_ms * kMs);
    samples.candidate_wall_ns.push_back((candidate_ms + candidate_gap_ms + jitter) * kMs);
    samples.reference_claim_ns.push_back(10 * kMs);
    samples.reference_wall_ns.push_back((10.2 + jitter) * kMs);
  }
  return samples;
}

TEST_CASE("Clocks: an honest program's agree") {
  const ClockCheck check = CheckClocks(SamplesOf(100, 4, 0.2));
  CHECK(check.AreAgreed());
  CHECK(check.protocol_ns == Approx(0.2 * kMs).epsilon(0.06));
  CHECK(check.gap_ns == Approx(0).margin(1e-3 * kMs));
  CHECK(check.tolerance_ns == Approx(0.08 * kMs));
}

TEST_CASE("Clocks: a claim that is too small by more than the tolerance is seen") {
  CHECK(CheckClocks(SamplesOf(100, 3.95, 0.25)).AreAgreed());
  CHECK_FALSE(CheckClocks(SamplesOf(100, 3.9, 0.3)).AreAgreed());
  CHECK_FALSE(CheckClocks(SamplesOf(100, 0.001, 4.2)).AreAgreed());
  CHECK_FALSE(CheckClocks(SamplesOf(3, 1, 3.2)).AreAgreed());
  CHECK_FALSE(CheckClocks(SamplesOf(1, 1, 3.2)).AreAgreed());
}

TEST_CASE("Clocks: honest programs may differ by a part of the protocol") {
  Samples samples = SamplesOf(100, 4, 0.35);
  CHECK_FALSE(CheckClocks(samples).AreAgreed());
  samples.protocol_slack = 1;
  CHECK(CheckClocks(samples).AreAgreed());
  CHECK(CheckClocks(samples).tolerance_ns == Approx(0.2 * kMs).epsilon(0.06));
  CHECK(CheckClocks(WithoutHiccups(samples)).AreAgreed());
}

TEST_CASE("Clocks: the judge's own copying is nobody's") {
  Samples samples = SamplesOf(100, 4, 0.2);
  for (size_t i = 0; i < 100; ++i) {
    samples.candidate_copy_ns.push_back(static_cast<double>(i % 7) * kMs);
    samples.candidate_wall_ns[i] += samples.candidate_copy_ns[i];
    samples.reference_copy_ns.push_back(static_cast<double>(i % 5) * kMs);
    samples.reference_wall_ns[i] += samples.reference_copy_ns[i];
  }
  const ClockCheck check = CheckClocks(samples);
  CHECK(check.gap_ns == Approx(0).margin(1e-3 * kMs));
  CHECK(check.tolerance_ns == Approx(0.08 * kMs));
  CHECK(CheckClocks(WithoutHiccups(samples)).AreAgreed());
}

TEST_CASE("Clocks: lies in some of the calls count for all") {
  Samples samples = SamplesOf(100, 4, 0.2);
  for (size_t i = 0; i < 10; ++i)
    samples.candidate_claim_ns[i * 10] = 1;
  CHECK_FALSE(CheckClocks(samples).AreAgreed());
}

TEST_CASE("Clocks: a program that finishes early is not held against it") {
  CHECK(CheckClocks(SamplesOf(100, 4, 0.0)).AreAgreed());
}

TEST_CASE("Clocks: a host that looks away once makes nobody a cheat") {
  Samples samples = SamplesOf(100, 0.05, 0.2);
  samples.candidate_wall_ns[17] += 30 * kMs;
  samples.reference_wall_ns[40] += 20 * kMs;
  const Samples rest = WithoutHiccups(samples);
  CHECK(CheckClocks(rest).AreAgreed());
  CHECK(rest.candidate_claim_ns.size() >= 90);
  CHECK(rest.reference_wall_ns.size() == rest.candidate_claim_ns.size());
  for (size_t i = 18; i < 23; ++i)
    samples.candidate_wall_ns[i] += 30 * kMs;
  CHECK_FALSE(CheckClocks(WithoutHiccups(samples)).AreAgreed());
}

TEST_CASE("Clocks: a lie in a call that is left out gains nothing") {
  Samples samples = SamplesOf(100, 4, 0.2);
  samples.candidate_claim_ns[50] = 1;
  const Samples rest = WithoutHiccups(samples);
  CHECK(CheckClocks(rest).AreAgreed());
  for (const double claim : rest.candidate_claim_ns)
    CHECK(claim == 4 * kMs);
}

TEST_CASE("Clocks: with few calls none is left out") {
  Samples samples = SamplesOf(3, 10, 0.2);
  samples.candidate_wall_ns[0] += 600 * kMs;
  CHECK(WithoutHiccups(samples).candidate_claim_ns.size() == 3);
  CHECK_FALSE(CheckClocks(WithoutHiccups(samples)).AreAgreed());
}

// Gaps as a busy machine gives them, the same for both sides: a few milliseconds, now and then
// more.
TEST_CASE("Clocks: honest calls on a busy host are rarely doubted, however few") {
  std::mt19937 random(7);
  std::exponential_distribution<double> gap_ms(1.0 / 3.0);
  for (const size_t calls : {3, 5, 10, 30, 100}) {
    int doubted = 0;
    for (int round = 0; round < 2000; ++round) {
      Samples samples;
      for (size_t i = 0; i < calls; ++i) {
        samples.candidate_claim_ns.push_back(10 * kMs);
        samples.reference_claim_ns.push_back(10 * kMs);
        samples.candidate_wall_ns.push_back((11 + gap_ms(random)) * kMs);
        samples.reference_wall_ns.push_back((11 + gap_ms(random)) * kMs);
      }
      doubted += CheckClocks(WithoutHiccups(samples)).AreAgreed() ? 0 : 1;
    }
    CAPTURE(calls, doubted);
    CHECK(doubted < 60);  // 3 %; a measurement is repeated twice before anyone is a suspect
  }
}

TEST_CASE("Clocks: a candidate's own noise does not widen the tolerance") {
  Samples samples = SamplesOf(100, 4, 0.2);
  for (size_t i = 0; i < 100; ++i)
    samples.candidate_wall_ns[i] += (i % 2 == 0 ? 3.0 : 0.0) * kMs;
  CHECK_FALSE(CheckClocks(samples).AreAgreed());
}

TEST_CASE("Clocks: a noisy protocol is known by the reference's calls") {
  Samples samples = SamplesOf(100, 0.05, 0.2);
  for (size_t i = 0; i < 100; ++i)
    samples.reference_wall_ns[i] += (i % 10 == 0 ? 1.0 : 0.0) * kMs;
  const ClockCheck check = CheckClocks(samples);
  CHECK(check.tolerance_ns > 0.1 * kMs);
  CHECK(check.AreAgreed());
}

}  // namespace
}  // namespace pike::gpu
