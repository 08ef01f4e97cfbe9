#include "cli/policy_text.h"
#include "cli/record_text.h"
#include "cli/result_table.h"
#include "cli/task_report_text.h"
#include "tests/testing/catch.h"

namespace pike::cli {
namespace {

using testing::Contains;

ResultRow Row(const std::string& task, double speedup, bool is_degenerate) {
  ResultRow row;
  row.task = task;
  row.candidate = "c.py";
  v1::Verdict* verdict = row.record.mutable_verdict();
  verdict->set_kind(speedup > 0 ? v1::VERDICT_KIND_VALID : v1::VERDICT_KIND_INCORRECT);
  if (speedup > 0)
    verdict->mutable_measurement()->set_speedup(speedup);
  v1::TaskReport* report = verdict->mutable_task_report();
  report->set_is_deterministic(true);
  report->set_frozen_passes(is_degenerate ? 1 : 0.25);
  report->set_zeros_passes(0.9999);
  report->set_reference_ms(1.5);
  v1::InputDependence* input = report->add_inputs();
  input->set_path("input[0]");
  input->set_changed(0.75);
  v1::PrecisionError* error = report->add_precisions();
  error->set_precision("fp32");
  error->set_error(2e-7);
  if (is_degenerate)
    report->add_degenerate("an output that was computed once passes");
  return row;
}

TEST_CASE("TaskChecks: a table, the ways to pass, and a summary", "[cli]") {
  std::vector<ResultRow> rows = {Row("s/1_a", 1, false), Row("s/2_b", 1, true)};
  rows[1].record.mutable_verdict()->mutable_task_report()->add_not_checked("precision: no time");
  const std::string text = RenderTaskChecks(rows);
  CHECK_THAT(text, Contains("s/1_a  yes        valid      yes            input[0] 75 %"));
  CHECK_THAT(text, Contains(" 25 %  > 99.9 %"));
  CHECK_THAT(text, Contains("s/2_b  no         valid"));
  CHECK_THAT(text, Contains("100 %") && Contains("2.0e-07"));
  CHECK_THAT(text, Contains("  s/2_b: an output that was computed once passes\n"));
  CHECK_THAT(text, Contains("  s/2_b: precision: no time\n"));
  CHECK_THAT(text, Contains("1 of 2 tasks can judge\n"));
  CHECK_FALSE(CanAllJudge(rows));
  rows.pop_back();
  CHECK(CanAllJudge(rows));
  rows[0].record.mutable_verdict()->mutable_task_report()->add_not_checked("everything: no memory");
  CHECK_FALSE(CanAllJudge(rows));
}

TEST_CASE("TaskChecks: a reference that disagrees with itself is the task's fault", "[cli]") {
  ResultRow row;
  row.task = "t";
  v1::Verdict* verdict = row.record.mutable_verdict();
  verdict->set_kind(v1::VERDICT_KIND_INFRA_ERROR);
  verdict->set_reason("the task: its reference disagrees with itself, so it judges nobody");
  verdict->set_blame(v1::BLAME_TASK);
  CHECK_FALSE(HasOtherFault(row));
  CHECK_FALSE(CanAllJudge({row}));
  CHECK_THAT(RenderTaskChecks({row}), Contains("t: the task: its reference disagrees"));
  verdict->set_blame(v1::BLAME_INFRASTRUCTURE);
  CHECK(HasOtherFault(row));
}

TEST_CASE("ResultTable: degenerate tasks are marked and left out of the verified mean", "[cli]") {
  const std::string text =
      RenderResults({Row("s/1_a", 4, false), Row("s/1_a", 2, false), Row("s/2_b", 0.5, false),
                     Row("s/3_c", 0, false), Row("s/4_d", 16, true)},
                    {});
  CHECK_THAT(text, Contains("s/4_d  c.py       valid      degenerate   16.00x"));
  CHECK_THAT(text, Contains("  s/4_d: an output that was computed once passes\n"));
  // 4, 1, 1 and 16; without the last one 4, 1 and 1.
  CHECK_THAT(text,
             Contains("1 where none is valid) 2.83x over 4 tasks, verified 1.59x over 3 tasks "
                      "that are not degenerate\n"));
}

TEST_CASE("ResultTable: one task that can judge needs no clamped mean", "[cli]") {
  CHECK_THAT(RenderResults({Row("t", 4, false)}, {}),
             !Contains("clamped") && !Contains("degenerate"));
}

TEST_CASE("RecordText: shows the task's report and the precision", "[cli]") {
  ResultRow row = Row("t", 2, true);
  v1::Correctness* correctness = row.record.mutable_verdict()->mutable_correctness();
  correctness->set_calls_compared(1);
  correctness->set_precision_class("fp16");
  correctness->set_precision_error(4e-4);
  row.record.mutable_policy()->set_precision("fp16");
  v1::DtypeTolerance* tolerance = row.record.mutable_policy()->add_tolerances();
  tolerance->set_dtype("float16");
  const std::string text = RenderRecord(row.record);
  CHECK_THAT(text, Contains("precision    fp16, off by 4.0e-04 of the norm\n"));
  CHECK_THAT(text, Contains("degenerate   an output that was computed once passes\n"));
  CHECK_THAT(text, Contains("float16 0, 0; precision fp16 within"));
}

TEST_CASE("PolicyText: a tolerance by dtype", "[cli]") {
  v1::Policy policy;
  CHECK(SetPolicyField("tolerances=float16:1e-2:1e-3", &policy).ok());
  REQUIRE(policy.tolerances_size() == 1);
  CHECK(policy.tolerances(0).dtype() == "float16");
  CHECK(policy.tolerances(0).rtol() == 1e-3);
  for (const char* wrong : {"tolerances=float16", "tolerances=float16:x:1", "tolerances=a:1:2:3"})
    CHECK_THAT(std::string(SetPolicyField(wrong, &policy).message()),
               Contains("wants DTYPE:ATOL:RTOL"));
}

}  // namespace
}  // namespace pike::cli
