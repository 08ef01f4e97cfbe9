#include "gpu_worker/supervisor/task_report.h"

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

TEST_CASE("TaskReport: a frame is read") {
  const CheckedTask checked = CheckedTaskOf(nlohmann::json::parse(R"({
      "type": "task_checked", "is_deterministic": true, "degenerate": ["zeros pass"],
      "not_checked": ["precision fp16: no time left"], "frozen_passes": 0.25, "zeros_passes": 1,
      "inputs": [{"path": "input[0]", "changed": 0.75}], "reference_ms": 1.5, "input_bytes": 8,
      "output_bytes": 4, "native_error": 2e-7, "needed_read_bytes": 6, "needed_written_bytes": 2,
      "precisions": [{"precision": "fp32", "error": 2e-7}]})"));
  const v1::TaskReport& report = checked.report;
  REQUIRE(report.degenerate_size() == 1);
  CHECK(report.degenerate(0) == "zeros pass");
  CHECK(report.not_checked(0) == "precision fp16: no time left");
  CHECK(report.is_deterministic());
  CHECK(report.frozen_passes() == 0.25);
  CHECK(report.zeros_passes() == 1);
  REQUIRE(report.inputs_size() == 1);
  CHECK(report.inputs(0).path() == "input[0]");
  CHECK(report.inputs(0).changed() == 0.75);
  CHECK(report.input_bytes() == 8);
  REQUIRE(report.precisions_size() == 1);
  CHECK(report.precisions(0).precision() == "fp32");
  REQUIRE(checked.precision.native_error.has_value());
  CHECK(checked.needed.read == 6);
  CHECK(checked.needed.written == 2);
  CHECK(checked.precision.errors[0].name == "fp32");
}

TEST_CASE("TaskReport: what a task's code made of the frame is cut and escaped") {
  nlohmann::json frame = {
      {"type", "task_checked"}, {"degenerate", nlohmann::json::array()},
      {"inputs", "none"},       {"precisions", {{{"precision", 5}}, "fp32", nullptr}},
      {"frozen_passes", "nan"}, {"zeros_passes", 1e300},
      {"input_bytes", -5}};
  for (int i = 0; i < 100; ++i)
    frame["degenerate"].push_back(std::string(5000, '\n'));
  const CheckedTask checked = CheckedTaskOf(frame);
  CHECK(checked.report.degenerate_size() == 32);
  CHECK(checked.report.degenerate(0).size() < 2000);
  CHECK(checked.report.degenerate(0).find('\n') == std::string::npos);
  CHECK(checked.report.inputs().empty());
  CHECK(checked.report.precisions(0).precision().empty());
  CHECK(checked.report.frozen_passes() == 0);
  CHECK(checked.report.zeros_passes() == 1);
  CHECK(checked.report.input_bytes() == 0);
  CHECK_FALSE(checked.precision.native_error.has_value());
}

TEST_CASE("TaskReport: tolerances that differ have different keys") {
  v1::Policy policy;
  policy.set_atol(1e-2);
  const std::string plain = ToleranceKey(policy);
  v1::DtypeTolerance* row = policy.add_tolerances();
  row->set_dtype("float16");
  row->set_atol(1e-2);
  const std::string with_row = ToleranceKey(policy);
  CHECK(plain != with_row);
  row->set_rtol(1);
  CHECK(ToleranceKey(policy) != with_row);
}

}  // namespace
}  // namespace pike::gpu
