#include "gpu_worker/supervisor/confirmation.h"

#include <string>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

v1::LeaseResult Valid(double speedup, double certified) {
  v1::LeaseResult result;
  result.mutable_times()->set_measure_ms(100);
  result.mutable_times()->add_locks()->set_operation("measure");
  v1::Verdict* verdict = result.mutable_verdict();
  verdict->set_kind(v1::VERDICT_KIND_VALID);
  verdict->mutable_measurement()->set_speedup(speedup);
  verdict->mutable_measurement()->set_speedup_certified(certified);
  v1::BuildRecord* build = verdict->add_builds();
  build->set_key("k1");
  build->set_build_ms(7);
  verdict->mutable_evidence()->add_earlier_attempts("a judge died");
  return result;
}

TEST_CASE("Confirmation: a certified gain over the best known is confirmed") {
  CHECK(NeedsConfirmation(Valid(2, 1.9), 0));
  CHECK(NeedsConfirmation(Valid(2, 1.7), 1.99));
  CHECK(!NeedsConfirmation(Valid(2, 1.9), 2));
  CHECK(!NeedsConfirmation(Valid(1.02, 0.99), 0));
  CHECK(!NeedsConfirmation(Valid(0.5, 0.49), 0));
  v1::LeaseResult result = Valid(2, 1.9);
  result.mutable_verdict()->set_kind(v1::VERDICT_KIND_SUSPECT);
  CHECK(!NeedsConfirmation(result, 0));
  result.mutable_infra_failure()->set_reason("no");
  CHECK(!NeedsConfirmation(result, 0));
}

TEST_CASE("Confirmation: the second measurement stands, the first is kept") {
  v1::LeaseResult second = Valid(1.8, 1.7);
  second.mutable_verdict()->mutable_builds(0)->set_build_ms(0);
  second.mutable_verdict()->add_builds()->set_key("k2");
  const v1::LeaseResult result = Confirmed(Valid(2, 1.9), second);
  CHECK(result.verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(result.verdict().measurement().speedup() == 1.8);
  CHECK(result.verdict().unconfirmed().speedup() == 2);
  REQUIRE(result.verdict().builds_size() == 2);
  CHECK(result.verdict().builds(0).build_ms() == 7);
  CHECK(result.verdict().builds(1).key() == "k2");
  CHECK(result.times().measure_ms() == 200);
  CHECK(result.times().locks_size() == 2);
  CHECK(result.verdict().evidence().earlier_attempts_size() == 2);
}

TEST_CASE("Confirmation: a second verdict that is not valid stands, and says what came before") {
  v1::LeaseResult second;
  second.mutable_verdict()->set_kind(v1::VERDICT_KIND_INCORRECT);
  v1::LeaseResult result = Confirmed(Valid(2, 1.9), second);
  CHECK(result.verdict().kind() == v1::VERDICT_KIND_INCORRECT);
  CHECK(!result.verdict().has_measurement());
  CHECK(result.verdict().unconfirmed().speedup() == 2);
  REQUIRE(result.verdict().evidence().earlier_attempts_size() == 2);
  CHECK(result.verdict().evidence().earlier_attempts(1) ==
        "on the worker: valid at 2.00x, a would-be best; not so when it was measured again");

  v1::LeaseResult failed;
  failed.mutable_infra_failure()->set_reason("a judge died");
  failed.mutable_infra_failure()->set_is_retryable(true);
  result = Confirmed(Valid(2, 1.9), failed);
  CHECK(result.infra_failure().is_retryable());
  CHECK(result.infra_failure().reason() ==
        "a judge died (when it was measured again; valid at 2.00x, a would-be best before)");
  CHECK(result.times().measure_ms() == 100);
}

}  // namespace
}  // namespace pike::gpu
