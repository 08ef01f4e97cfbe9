#include "compile_worker/core/outcome.h"

#include "tests/testing/catch.h"

namespace pike::compile_worker {
namespace {

constexpr char kBuildTraceback[] =
    "Traceback (most recent call last):\nRuntimeError: Error building extension 'ext': g++: no";

ImportFacts Failed(const std::string& text) {
  ImportFacts facts;
  facts.report = ImportReport::kImportError;
  facts.error_type = "RuntimeError";
  facts.error_text = text;
  return facts;
}

BuildFact FailedBuild(BuildResult result) {
  return {"ext", result, "expected ';'", "main.cpp", 7};
}

TEST_CASE("Outcome: an import that succeeds is compiled, failed builds or not") {
  ImportFacts facts;
  facts.report = ImportReport::kLoaded;
  CHECK(Conclude(facts).conclusion == Conclusion::kCompiled);
  facts.builds = {FailedBuild(BuildResult::kCompileError), FailedBuild(BuildResult::kInfra)};
  CHECK(Conclude(facts).conclusion == Conclusion::kCompiled);
}

TEST_CASE("Outcome: an import that fails with its failed build is final") {
  ImportFacts facts = Failed(kBuildTraceback);
  facts.builds = {FailedBuild(BuildResult::kCompileError)};
  const Outcome outcome = Conclude(facts);
  CHECK(outcome.conclusion == Conclusion::kLoadError);
  CHECK(outcome.reason == "build of extension 'ext' failed: expected ';' (main.cpp:7)");
  facts.builds = {FailedBuild(BuildResult::kTimeout)};
  CHECK(Conclude(facts).conclusion == Conclusion::kTimeout);
  facts.builds = {FailedBuild(BuildResult::kOutOfMemory)};
  CHECK(Conclude(facts).conclusion == Conclusion::kOutOfMemory);
}

TEST_CASE("Outcome: a failed build beside another error is left to the GPU worker") {
  ImportFacts facts = Failed("RuntimeError: No CUDA GPUs are available");
  facts.builds = {FailedBuild(BuildResult::kCompileError)};
  CHECK(Conclude(facts).conclusion == Conclusion::kInconclusive);
}

TEST_CASE("Outcome: every other failure of an import is inconclusive") {
  const Outcome raised = Conclude(Failed("Traceback\nRuntimeError: no GPU\n"));
  CHECK(raised.conclusion == Conclusion::kInconclusive);
  CHECK(raised.reason == "import raised RuntimeError: no GPU");
  ImportFacts facts;
  CHECK(Conclude(facts).conclusion == Conclusion::kInconclusive);  // exit 0 in import
  facts.signal = 11;
  CHECK(Conclude(facts).reason == "import was ended by signal 11");
  facts.is_memory_limit_hit = true;
  CHECK(Conclude(facts).conclusion == Conclusion::kInconclusive);
  facts.is_timed_out = true;
  CHECK(Conclude(facts).conclusion == Conclusion::kInconclusive);
}

TEST_CASE("Outcome: a death after a failed build is still inconclusive") {
  ImportFacts facts;
  facts.exit_status = 1;
  facts.builds = {FailedBuild(BuildResult::kCompileError)};
  CHECK(Conclude(facts).conclusion == Conclusion::kInconclusive);
}

TEST_CASE("Outcome: what is not Python or has no entry is unparsable") {
  ImportFacts facts;
  facts.report = ImportReport::kNotPython;
  facts.error_type = "SyntaxError";
  CHECK(Conclude(facts).conclusion == Conclusion::kUnparsable);
  facts.report = ImportReport::kNoEntry;
  CHECK(Conclude(facts).conclusion == Conclusion::kUnparsable);
}

TEST_CASE("Outcome: our own failures blame nobody") {
  ImportFacts facts = Failed(kBuildTraceback);
  facts.builds = {FailedBuild(BuildResult::kInfra)};
  CHECK(Conclude(facts).conclusion == Conclusion::kInfra);
}

TEST_CASE("Outcome: a process that blames our harness decides nothing") {
  ImportFacts facts;
  facts.report = ImportReport::kHarness;
  facts.error_text = "no such file";
  CHECK(Conclude(facts).conclusion == Conclusion::kInconclusive);
  CHECK(Conclude(facts).reason == "harness failed: no such file");
}

TEST_CASE("Outcome: a hostile error text stays one short printable line") {
  const Outcome outcome =
      Conclude(Failed(std::string(100000, '\n') + "\xff\x1b[2J" + std::string(100000, 'x')));
  CHECK(outcome.reason.size() < 2000);
  CHECK(outcome.reason.find('\n') == std::string::npos);
  CHECK(outcome.reason.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace pike::compile_worker
