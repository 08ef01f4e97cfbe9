// The real processes: `pike up`, `pike eval` and PyTorch on the CPU.
#include <signal.h>

#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <google/protobuf/util/json_util.h>

#include "common/base/file.h"
#include "pike/v1/evaluation.pb.h"
#include "tests/testing/catch.h"
#include "tests/testing/program.h"

namespace pike {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::BinPath;
using testing::Program;

std::string SourceDir() {
  return std::getenv("PIKE_SOURCE_DIR");
}

// `pike up` in folders of its own.
class Up {
 public:
  explicit Up(std::vector<std::string> extra = {}) : folder_(*TempFolder::Create("pike-up")) {
    Start(std::move(extra));
  }

  void Start(std::vector<std::string> extra = {}) {
    std::vector<std::string> argv = {
        BinPath("pike"), "--runtime-dir", runtime_dir(), "up", "--store", folder_.path() + "/state",
        "--metrics-base-port", "off",
        // One for all tests: judge and runner are compiled once.
        "--cache-dir",
        (fs::path(BinPath("pike")).parent_path().parent_path() / "test-cache").string()};
    argv.insert(argv.end(), extra.begin(), extra.end());
    program_ = std::make_unique<Program>(std::move(argv));
  }
  void WaitUntilReady() { program_->ReadUntil("next: pike eval"); }

  std::unique_ptr<Program> Client(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {BinPath("pike"), "--runtime-dir", runtime_dir()});
    return std::make_unique<Program>(std::move(arguments));
  }

  std::string runtime_dir() const { return folder_.path() + "/run"; }
  Program& program() { return *program_; }

 private:
  TempFolder folder_;
  std::unique_ptr<Program> program_;
};

// What a candidate's head says: "# expect: a, b" and "# policy: key=value ...".
struct Expectation {
  std::vector<std::string> verdicts;
  std::vector<std::string> policy;
  bool needs_gpu = false;
};

Expectation ReadExpectation(const std::string& path) {
  Expectation expectation;
  for (absl::string_view line : absl::StrSplit(*ReadFile(path, 1 << 20), '\n')) {
    if (absl::ConsumePrefix(&line, "# expect:"))
      expectation.verdicts = absl::StrSplit(line, absl::ByAnyChar(", "), absl::SkipEmpty());
    else if (absl::ConsumePrefix(&line, "# policy:"))
      expectation.policy = absl::StrSplit(line, ' ', absl::SkipEmpty());
    else if (absl::StartsWith(line, "# needs: gpu"))
      expectation.needs_gpu = true;
  }
  return expectation;
}

std::string VerdictOf(const std::string& json) {
  v1::EvaluationRecord record;
  if (!google::protobuf::util::JsonStringToMessage(json, &record).ok())
    return "no record: " + json;
  const std::string name = v1::VerdictKind_Name(record.verdict().kind());
  return absl::AsciiStrToLower(absl::StripPrefix(name, "VERDICT_KIND_"));
}

std::vector<std::string> CandidatesIn(const std::string& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".py" && entry.path().filename() != "task.py")
      paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Evaluates every candidate at once and checks each verdict.
void CheckVerdicts(const Up& up, const std::vector<std::string>& candidates,
                   const std::string& task) {
  std::map<std::string, std::unique_ptr<Program>> runs;
  for (const std::string& path : candidates) {
    const Expectation expectation = ReadExpectation(path);
    if (expectation.needs_gpu)
      continue;
    const std::string number = fs::path(path).filename().string().substr(0, 2);
    std::vector<std::string> command = {
        "eval",  task.empty() ? number : task, path,      "--json",
        "--set", "timed_ms_max=100",           "--tasks", SourceDir() + "/examples/tasks"};
    for (const std::string& assignment : expectation.policy)
      command.insert(command.end(), {"--set", assignment});
    runs[path] = up.Client(command);
  }
  for (auto& [path, program] : runs) {
    const auto outcome = program->Finish();
    INFO(path << "\n" << outcome.out << outcome.err);
    CHECK_THAT(ReadExpectation(path).verdicts,
               Catch::Matchers::VectorContains(VerdictOf(outcome.out)));
  }
}

}  // namespace

TEST_CASE("pike up: the examples end with the verdicts they announce", "[cli]") {
  Up up;
  up.WaitUntilReady();
  CheckVerdicts(up, CandidatesIn(SourceDir() + "/examples/candidates"), "");
  up.program().Signal(SIGTERM);
  CHECK(up.program().Finish().exit_code == 0);
}

TEST_CASE("pike up: hostile candidates end with the right verdict, the next one is fine", "[cli]") {
  const std::string folder = SourceDir() + "/tests/integration/hostile";
  Up up;
  up.WaitUntilReady();
  for (const std::string& path : CandidatesIn(folder))
    CheckVerdicts(up, {path}, folder + "/task.py");
  up.program().Signal(SIGTERM);
  CHECK(up.program().Finish().exit_code == 0);
}

TEST_CASE("pike up: verdicts are still there after a restart", "[cli]") {
  const std::string task = SourceDir() + "/examples/tasks/04_row_statistics.py";
  Up up;
  up.WaitUntilReady();
  CHECK(up.Client({"eval", task, "reference"})->Finish().exit_code == 0);
  up.program().Signal(SIGINT);
  CHECK(up.program().Finish().exit_code == 0);
  up.Start({"--until-idle", "--idle-grace", "5"});
  up.WaitUntilReady();
  CHECK_THAT(up.Client({"--wait", "0", "list"})->Finish().out,
             Contains("04_row_statistics") && Contains("valid"));
  CHECK(up.program().Finish().exit_code == 0);
}

TEST_CASE("pike up: a second one on the same runtime folder is refused", "[cli]") {
  Up up;
  up.program().ReadUntil("starting pike");
  const auto outcome = up.Client({"up"})->Finish();
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.err, Contains("another `pike up`"));
}

TEST_CASE("pike up: its children die with it", "[cli]") {
  Up up;
  up.WaitUntilReady();
  up.program().Signal(SIGKILL);
  // The children hold the other end of the pipe: it ends when the last one is gone.
  CHECK(up.program().Finish().exit_code == -SIGKILL);
  CHECK(up.Client({"--wait", "0", "list"})->Finish().exit_code == 3);
}

TEST_CASE("pike up: a GPU is refused with a clear line", "[cli]") {
  const auto outcome = Up({"--gpus", "all"}).program().Finish();
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, Contains("use --gpus none"));
}

}  // namespace pike
