#include "coordinator/rpc/policies.h"

#include <string>

#include "coordinator/rpc/validate.h"
#include "tests/testing/catch.h"

namespace pike::coordinator {
namespace {

using testing::Contains;

TEST_CASE("Policy: the built-in ones, and what overrides them", "[coordinator][rpc]") {
  v1::Policy asked;
  asked.set_name("kernelbench");
  const auto kernelbench = CompletePolicy(asked);
  REQUIRE(kernelbench.ok());
  CHECK(kernelbench->atol() == 1e-4);
  REQUIRE(kernelbench->tolerances_size() == 2);
  CHECK(kernelbench->tolerances(0).dtype() == "float16");
  CHECK(kernelbench->tolerances(0).rtol() == 1e-2);
  CHECK(kernelbench->precision().empty());
  // A complete policy is its own completion.
  CHECK(CompletePolicy(*kernelbench)->SerializeAsString() == kernelbench->SerializeAsString());
  asked.set_atol(0.5);
  const auto wider = CompletePolicy(asked);
  CHECK(wider->atol() == 0.5);
  CHECK(wider->tolerances(0).atol() == 0.5);
  CHECK(wider->tolerances(0).rtol() == 1e-2);
  v1::DtypeTolerance* row = asked.add_tolerances();
  row->set_dtype("float32");
  row->set_atol(1);
  CHECK(CompletePolicy(asked)->tolerances_size() == 1);
  v1::Policy strict;
  strict.set_name("strict");
  CHECK(CompletePolicy(strict)->precision() == "fp32");
  CHECK(CompletePolicy(strict)->precision_slack() == 4);
  strict.set_precision("bf16");
  strict.set_precision_slack(10);
  CHECK(CompletePolicy(strict)->precision() == "bf16");
  CHECK(CompletePolicy(strict)->precision_slack() == 10);
}

TEST_CASE("Policy: tolerances and precisions are checked", "[coordinator][rpc]") {
  v1::Policy policy;
  for (const char* dtype : {"float8", "int8", "int8"}) {
    v1::DtypeTolerance* row = policy.add_tolerances();
    row->set_dtype(dtype);
    row->set_rtol(-1);
  }
  policy.set_precision("fp8");
  policy.set_precision_slack(0.5);
  const std::string problem(CompletePolicy(policy).status().message());
  CHECK_THAT(problem, Contains("names the dtype \"float8\"; there are bool, int8"));
  CHECK_THAT(problem, Contains("policy.tolerances names int8 twice"));
  CHECK_THAT(problem, Contains("policy.tolerances[int8].rtol is -1"));
  CHECK_THAT(problem, Contains("policy.precision is \"fp8\"; it must be one of fp32, tf32"));
  CHECK_THAT(problem, Contains("policy.precision_slack is 0.5; it must be 1 to 1000"));
}

}  // namespace
}  // namespace pike::coordinator
