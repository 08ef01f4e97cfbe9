#include <absl/strings/str_split.h>
#include <google/protobuf/util/json_util.h>

#include "cli/doctor/checks.h"
#include "cli/eval/progress.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/policy_text.h"
#include "cli/record_text.h"
#include "cli/result_table.h"
#include "cli/table.h"
#include "tests/testing/catch.h"

namespace pike::cli {
namespace {

using Catch::Matchers::StartsWith;
using std::chrono::milliseconds;
using testing::Contains;

v1::EvaluationRecord ValidRecord() {
  v1::EvaluationRecord record;
  record.set_evaluation_id("e1");
  record.set_stage(v1::STAGE_ENDED);
  v1::Verdict* verdict = record.mutable_verdict();
  verdict->set_kind(v1::VERDICT_KIND_VALID);
  verdict->mutable_measurement()->set_speedup(2.0);
  verdict->mutable_measurement()->mutable_candidate()->set_mean_ms(5.0);
  verdict->mutable_measurement()->mutable_reference()->set_mean_ms(10.0);
  verdict->mutable_correctness()->add_outputs()->set_max_abs_error(1e-5);
  record.mutable_times()->set_total_ms(4200);
  return record;
}

v1::EvaluationRecord FailedRecord(const std::string& reason) {
  v1::EvaluationRecord record;
  record.mutable_verdict()->set_kind(v1::VERDICT_KIND_LOAD_ERROR);
  record.mutable_verdict()->set_reason(reason);
  return record;
}

}  // namespace

TEST_CASE("Table: columns are aligned, empty ones left out", "[cli]") {
  Table table({{"name"}, {"empty"}, {"n", Table::Align::kRight}});
  table.AddRow({"a", "", "1"});
  table.AddRow({"länger", "", "100"});
  CHECK(table.Render() ==
        "name      n\n"
        "a         1\n"
        "länger  100\n");
}

TEST_CASE("Table: long cells are cut and colours need no room", "[cli]") {
  Table table({{"name", Table::Align::kLeft, 4}, {"verdict"}, {"n"}});
  table.AddRow({"abcdef", "\x1b[32mvalid\x1b[0m", "x"});
  CHECK(table.Render() ==
        "name  verdict  n\n"
        "abc~  \x1b[32mvalid\x1b[0m    x\n");
  CHECK(CutToWidth("äöü", 2) == "ä~");
  CHECK(CutToWidth("äöü", 3) == "äöü");
  CHECK(CutToWidth("abc", 1) == "~");
  CHECK(CutStartToWidth("äöü", 2) == "~ü");
  CHECK(CutStartToWidth("äöü", 3) == "äöü");
  CHECK(CutStartToWidth("abc", 1) == "~");
}

TEST_CASE("Format: numbers for people", "[cli]") {
  CHECK(FormatDuration(milliseconds(812)) == "812 ms");
  CHECK(FormatDuration(milliseconds(4'200)) == "4.2 s");
  CHECK(FormatDuration(milliseconds(185'000)) == "3 min 05 s");
  CHECK(FormatDuration(milliseconds(7'620'000)) == "2 h 07 min");
  CHECK(FormatMs(12.345) == "12.35");
  CHECK(FormatMs(0.01234) == "0.0123");
  CHECK(FormatStageSeconds(0) == "");
  CHECK(FormatStageSeconds(420) == "0.42");
  CHECK(FormatBytes(3'500) == "3.4 KiB");
  CHECK(FormatErrorValue(0) == "0");
  CHECK(VerdictName(v1::VERDICT_KIND_OUT_OF_MEMORY) == "out_of_memory");
  CHECK(VerdictName(static_cast<v1::VerdictKind>(99)) == "unknown");
  CHECK(StageName(v1::STAGE_QUEUED_RUN) == "queued (run)");
}

TEST_CASE("ResultTable: measurements, reasons and a summary", "[cli]") {
  const std::string text =
      RenderResults({{"suite/01_a", "fast.py", ValidRecord(), ""},
                     {"suite/02_b", "bad.py", FailedRecord("import failed"), ""},
                     {"suite/03_c", "new.py", {}, "no worker can do it"}},
                    {});
  CHECK_THAT(text, Contains("2.00x  5.000   10.00    1.0e-05"));
  CHECK_THAT(text, Contains("suite/02_b / bad.py: load_error: import failed\n"));
  CHECK_THAT(text, Contains("suite/03_c / new.py: refused: no worker can do it\n"));
  CHECK_THAT(text, Contains("valid 1 of 3, 1 load_error, 1 refused; geometric mean speedup of the "
                            "valid ones 2.00x"));
}

TEST_CASE("ResultTable: leads to the evidence", "[cli]") {
  v1::EvaluationRecord failed = FailedRecord("import failed");
  failed.set_evaluation_id("ev-0000000002");
  const std::string text =
      RenderResults({{"t", "fast.py", ValidRecord(), ""}, {"t", "bad.py", failed, ""}}, {});
  CHECK_THAT(text, StartsWith("task t\n\ncandidate  verdict "));
  CHECK_THAT(text, Contains("4.20  e1\n"));
  CHECK_THAT(text, Contains("  ev-0000000002  bad.py: load_error: import failed\n"));
}

TEST_CASE("ResultTable: fits the terminal", "[cli]") {
  v1::EvaluationRecord record = ValidRecord();
  for (const auto set : {&v1::StageTimes::set_compile_ms, &v1::StageTimes::set_prepare_ms,
                         &v1::StageTimes::set_verify_ms, &v1::StageTimes::set_measure_ms,
                         &v1::StageTimes::set_queued_run_ms})
    (record.mutable_times()->*set)(1'000);
  const std::vector<ResultRow> rows = {{"suite/01_a", std::string(40, 'c') + ".py", record, ""}};
  const auto widest = [](const std::string& text) {
    size_t width = 0;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n')))
      width = std::max(width, DisplayWidth(line));
    return width;
  };
  const std::string whole = RenderResults(rows, {});
  CHECK_THAT(whole, Contains("verify s") && Contains("id\n"));
  const std::string narrow = RenderResults(rows, {.width_max = widest(whole) - 1});
  CHECK_THAT(narrow, !Contains("verify s") && Contains("prepare s") && Contains("id\n"));
  CHECK(widest(RenderResults(rows, {.width_max = 90})) <= 90);
  CHECK_THAT(RenderResults(rows, {.width_max = 10}), Contains("speedup") && Contains("total s"));
}

TEST_CASE("ResultTable: a candidate cannot send terminal sequences", "[cli]") {
  v1::EvaluationRecord record = FailedRecord("\x1b]0;owned\x07\nnext");
  record.mutable_verdict()->mutable_evidence()->mutable_stdout_tail()->set_head("\x1b[2J");
  record.mutable_verdict()->add_builds()->mutable_error()->set_first_error("\x1b[31mred");
  const std::string text =
      RenderResults({{"t", "\x1b[1mc", record, ""}}, {}) + RenderRecord(record);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\x07') == std::string::npos);
  CHECK_THAT(text, Contains("owned"));
}

TEST_CASE("ReasonLine: names the first build error", "[cli]") {
  v1::EvaluationRecord record = FailedRecord("extension k did not build");
  v1::BuildError* error = record.mutable_verdict()->add_builds()->mutable_error();
  error->set_tool("g++");
  error->set_file("main.cpp");
  error->set_line(7);
  error->set_first_error("expected ';'");
  CHECK(ReasonLine(record.verdict()) == "extension k did not build; g++: main.cpp:7: expected ';'");
}

TEST_CASE("RecordText: shows what the verdict rests on", "[cli]") {
  v1::EvaluationRecord record = ValidRecord();
  record.mutable_verdict()->mutable_correctness()->set_calls_compared(7);
  v1::OutputError* output = record.mutable_verdict()->mutable_correctness()->mutable_outputs(0);
  output->set_path("out[0]");
  output->set_dtype("float32");
  output->add_shape(4);
  output->set_mismatched(1);
  output->set_elements(4);
  output->add_first_mismatch(2);
  output->set_expected_value(1.5);
  v1::OutputTail* tail = record.mutable_verdict()->mutable_evidence()->mutable_stderr_tail();
  tail->set_head("begin");
  tail->set_tail("end");
  tail->set_bytes_total(3'000);
  const std::string text = RenderRecord(record);
  CHECK_THAT(text, Contains("out[0]  float32  [4]"));
  CHECK_THAT(text, Contains("1 of 4"));
  CHECK_THAT(text, Contains("[... 2.9 KiB left out ...]"));
  CHECK_THAT(text, !Contains("first run") && !Contains("certificate"));
}

TEST_CASE("RecordText: a confirmed best shows both measurements", "[cli]") {
  v1::EvaluationRecord record = ValidRecord();
  record.mutable_verdict()->mutable_measurement()->set_speedup(1.75);
  v1::Measurement* first = record.mutable_verdict()->mutable_unconfirmed();
  first->set_speedup(2);
  first->mutable_candidate()->set_mean_ms(1.5);
  first->mutable_reference()->set_mean_ms(3);
  record.mutable_verdict()->mutable_evidence()->set_certificate("gpu-1/3/17");
  const std::string text = RenderRecord(record);
  CHECK_THAT(text, Contains("1.75x") && Contains("2.00x, a would-be best (candidate 1.5"));
  CHECK_THAT(text, Contains("certificate  gpu-1/3/17"));
}

TEST_CASE("RecordText: JSON is one line that parses back", "[cli]") {
  v1::EvaluationRecord record = FailedRecord("line\nbreak \x1b[31m");
  const auto json = ToJsonLine(record);
  REQUIRE(json.ok());
  CHECK(json->find('\n') == std::string::npos);
  CHECK(json->find('\x1b') == std::string::npos);
  v1::EvaluationRecord parsed;
  REQUIRE(google::protobuf::util::JsonStringToMessage(*json, &parsed).ok());
  CHECK(parsed.SerializeAsString() == record.SerializeAsString());
}

TEST_CASE("Policy: fields are set by name", "[cli]") {
  v1::Policy policy;
  CHECK(SetPolicyField("call_timeout_ms=5000", &policy).ok());
  CHECK(policy.call_timeout_ms() == 5000);
  CHECK(SetPolicyField("atol=0", &policy).ok());
  CHECK(policy.has_atol());
  CHECK(SetPolicyField("memory_bytes_max=8589934592", &policy).ok());
  CHECK(policy.memory_bytes_max() == 8589934592);
}

TEST_CASE("Policy: bad assignments say what is possible", "[cli]") {
  v1::Policy policy;
  CHECK_THAT(std::string(SetPolicyField("call_timeout=1", &policy).message()),
             Contains("call_timeout_ms"));
  CHECK_FALSE(SetPolicyField("call_timeout_ms", &policy).ok());
  CHECK_FALSE(SetPolicyField("call_timeout_ms=0", &policy).ok());
  CHECK_FALSE(SetPolicyField("call_timeout_ms=4294967296", &policy).ok());
  CHECK_FALSE(SetPolicyField("rtol=-1", &policy).ok());
  CHECK_FALSE(SetPolicyField("rtol=nan", &policy).ok());
}

TEST_CASE("ExitCode: the most serious fact wins", "[cli]") {
  EvalCounts counts;
  CHECK(ExitCodeOf(counts) == ExitCode::kOk);
  counts.refused = counts.invalid = 2;
  CHECK(ExitCodeOf(counts) == ExitCode::kUsage);
  counts.refused = 3;
  CHECK(ExitCodeOf(counts) == ExitCode::kInfra);
  counts.refused = 2;
  counts.valid = 1;
  CHECK(ExitCodeOf(counts) == ExitCode::kInfra);
  counts.unfinished = 1;
  CHECK(ExitCodeOf(counts) == ExitCode::kUnreachable);
  counts.is_interrupted = true;
  CHECK(ExitCodeOf(counts) == ExitCode::kInterrupted);
}

TEST_CASE("Progress: the pace so far gives the time left", "[cli]") {
  CHECK_FALSE(EstimateRemaining(0, 4, milliseconds(100)).has_value());
  CHECK(EstimateRemaining(1, 4, milliseconds(100)) == milliseconds(300));
  CHECK_FALSE(EstimateRemaining(4, 4, milliseconds(100)).has_value());
  CHECK(ProgressBar(1, 4, 8) == "[##......]");
  CHECK(ProgressBar(0, 0, 2) == "[##]");
}

TEST_CASE("Progress: running items come first and the block fits", "[cli]") {
  const MonoTime start{};
  Progress progress({"a", "b", "c", "d"}, start);
  v1::EvaluationRecord record;
  record.set_stage(v1::STAGE_QUEUED_COMPILE);
  record.set_queue_position(2);
  progress.OnUpdate(0, record, start);
  record.set_queue_position(1);
  progress.OnUpdate(1, record, start);
  record.set_queue_position(0);
  record.set_stage(v1::STAGE_MEASURE);
  progress.OnUpdate(2, record, start);
  progress.OnEnded(3);
  const auto lines = progress.RenderBlock(start + milliseconds(2'000), 80, 10);
  REQUIRE(lines.size() == 4);
  CHECK_THAT(lines[0], Contains("c") && Contains("measure, 2.0 s"));
  CHECK_THAT(lines[1], Contains("b") && Contains("place 1"));
  CHECK_THAT(lines[3], Contains("1/4 [#####...............] 1 running, 2.0 s, ETA 6.0 s"));
  CHECK(progress.RenderBlock(start, 80, 3).size() == 2);
  CHECK(progress.RenderBlock(start, 80, 1).size() == 1);
  CHECK(DisplayWidth(progress.RenderBlock(start, 20, 10)[0]) == 20);
}

TEST_CASE("Doctor: missing things come first with their fix", "[cli]") {
  const std::vector<Finding> findings = {
      {"bwrap", Finding::State::kOk, "/usr/bin/bwrap", ""},
      {"nvcc", Finding::State::kOptional, "absent", "install it"},
      {"g++", Finding::State::kMissing, "absent", "apt-get install g++"}};
  CHECK(RenderFindings(findings) ==
        "MISSING   g++: absent -> apt-get install g++\n"
        "optional  nvcc: absent -> install it\n"
        "ok        bwrap: /usr/bin/bwrap\n"
        "1 thing is missing\n");
  CHECK_FALSE(IsHealthy(findings));
  CHECK(IsHealthy({findings[0], findings[1]}));
}

}  // namespace pike::cli
