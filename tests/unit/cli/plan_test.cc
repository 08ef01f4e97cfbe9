#include "cli/eval/plan.h"

#include <filesystem>
#include <fstream>

#include "cli/source_files.h"
#include "cli/task_match.h"
#include "common/base/file.h"
#include "tests/testing/catch.h"

namespace pike::cli {
namespace {

using testing::Contains;

// A folder of files whose content is their own name.
class Files {
 public:
  Files() : folder_(*TempFolder::Create("pike-plan-test")) {}

  Files& Add(const std::string& name) {
    const std::filesystem::path path = Path(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << name;
    return *this;
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  TempFolder folder_;
};

std::string ErrorOf(const EvalOptions& options) {
  const auto plan = MakePlan(options);
  REQUIRE_FALSE(plan.ok());
  return std::string(plan.status().message());
}

}  // namespace

TEST_CASE("TaskMatch: the number of a file name", "[cli]") {
  CHECK(NumberOfStem("31_VisionAttention") == 31);
  CHECK(NumberOfStem("task_31") == 31);
  CHECK(NumberOfStem("task31_v2") == 31);
  CHECK(NumberOfStem("031") == 31);
  CHECK(NumberOfStem("31-fused") == 31);
  CHECK_FALSE(NumberOfStem("3d_conv").has_value());
  CHECK_FALSE(NumberOfStem("attention_31").has_value());
  CHECK_FALSE(NumberOfStem("task").has_value());
  CHECK_FALSE(NumberOfStem("").has_value());
  CHECK_FALSE(NumberOfStem("99999999999999999999999").has_value());
  CHECK(NumberOfCandidate("out/31/best.py") == 31);
  CHECK(NumberOfCandidate("31/7_best.py") == 7);
}

TEST_CASE("TaskMatch: a task is found by number, stem or name", "[cli]") {
  const std::vector<std::string> tasks = {"l3/3_Deep.py", "l3/31_VisionAttention.py"};
  CHECK(*FindTask("31", tasks) == 1);
  CHECK(*FindTask("31_VisionAttention", tasks) == 1);
  CHECK(*FindTask("visionattention", tasks) == 1);
  CHECK(*FindTask("3_Deep.py", tasks) == 0);
  CHECK_THAT(std::string(FindTask("4", tasks).status().message()),
             Contains("no task \"4\" among 2 tasks (3_Deep, 31_VisionAttention)"));
  CHECK(absl::IsInvalidArgument(FindTask("3", {"a/3_x.py", "a/3_y.py"}).status()));
}

TEST_CASE("TaskMatch: candidates go to the task with their number", "[cli]") {
  const auto result = MatchCandidates({"l3/3_Deep.py", "l3/31_Vision.py", "l3/32_Conv.py"},
                                      {"31_b.py", "task_3.py", "31_a.py", "Vision.py", "40.py"});
  REQUIRE(result.ok());
  CHECK(result->matches == std::vector<Match>{{0, 1}, {1, 0}, {1, 2}, {1, 3}});
  CHECK(result->tasks_alone == std::vector<size_t>{2});
  CHECK(result->candidates_alone == std::vector<size_t>{4});
}

TEST_CASE("TaskMatch: number lists and task names", "[cli]") {
  CHECK(*ParseNumberList("3,7-9") == std::vector<uint64_t>{3, 7, 8, 9});
  CHECK_FALSE(ParseNumberList("9-7").ok());
  CHECK_FALSE(ParseNumberList("a").ok());
  CHECK_FALSE(ParseNumberList("0-99999999").ok());
  CHECK(TaskNameOf("/x/level3/43_Min GPT.py") == "level3/43_Min_GPT");
  CHECK(TaskNameOf("./a.py") == "a");
}

TEST_CASE("Plan: one task with files and the reference", "[cli]") {
  Files files;
  files.Add("tasks/01_a.py").Add("fast.py");
  EvalOptions options;
  options.task = files.Path("tasks/01_a.py");
  options.candidates = {files.Path("fast.py"), "reference"};
  options.policy_fields = {"timed_calls_max=10"};
  options.rtol = 0.5;
  const auto plan = MakePlan(options);
  REQUIRE(plan.ok());
  CHECK(plan->tasks[0].name == "tasks/01_a");
  REQUIRE(plan->evals.size() == 2);
  CHECK(plan->evals[0].source == "fast.py");
  CHECK(plan->evals[1].candidate_name == "reference");
  CHECK(plan->evals[1].source == "tasks/01_a.py");
  CHECK(plan->policy.name() == "paper");
  CHECK(plan->policy.timed_calls_max() == 10);
  CHECK(plan->policy.rtol() == 0.5);
}

TEST_CASE("Plan: checks of task files and folders", "[cli]") {
  Files files;
  files.Add("tasks/01_a.py").Add("tasks/02_b.py").Add("other.py");
  EvalOptions options;
  options.checked_tasks = {files.Path("other.py"), files.Path("tasks")};
  options.policy = "strict";
  const auto plan = MakePlan(options);
  REQUIRE(plan.ok());
  REQUIRE(plan->evals.size() == 3);
  CHECK(plan->tasks[2].name == "tasks/02_b");
  CHECK(plan->evals[2].task == 2);
  CHECK(plan->evals[2].source == "tasks/02_b.py");
  CHECK(plan->evals[0].candidate_name == "reference");
  CHECK(plan->policy.name() == "strict");
  options.checked_tasks = {files.Path("none.py")};
  CHECK_FALSE(MakePlan(options).ok());
}

TEST_CASE("Plan: a suite with folders and the reference", "[cli]") {
  Files files;
  files.Add("tasks/01_a.py").Add("tasks/02_b.py").Add("tasks/03_c.py").Add("tasks/.hidden.py");
  files.Add("c/valid/01_x.py").Add("c/wrong/01_y.py").Add("c/02_z.py").Add("c/09_alone.py");
  files.Add("c/__pycache__/03_no.py");
  EvalOptions options;
  options.suite = files.Path("tasks");
  options.candidate_folders = {files.Path("c"), "reference"};
  SECTION("all") {
    const auto plan = MakePlan(options);
    REQUIRE(plan.ok());
    std::vector<std::string> names;
    for (const PlannedEval& eval : plan->evals)
      names.push_back(plan->tasks[eval.task].name + " " + eval.candidate_name);
    CHECK(names == std::vector<std::string>{"tasks/01_a valid/01_x.py", "tasks/01_a wrong/01_y.py",
                                            "tasks/01_a reference", "tasks/02_b 02_z.py",
                                            "tasks/02_b reference", "tasks/03_c reference"});
    REQUIRE(plan->notes.size() == 1);
    CHECK_THAT(plan->notes[0], Contains("09_alone.py"));
  }
  SECTION("some") {
    options.only = "1";
    options.exclude = {"wrong/*", "09*"};
    const auto plan = MakePlan(options);
    REQUIRE(plan.ok());
    CHECK(plan->tasks.size() == 1);
    CHECK(plan->evals.size() == 2);
  }
}

TEST_CASE("Plan: bad input gives one line that says what to do", "[cli]") {
  Files files;
  files.Add("tasks/01_a.py").Add("deep/level1/01_a.py").Add("c/02_b.py");
  std::ofstream(files.Path("empty.py")).flush();
  std::ofstream(files.Path("large.py")) << std::string(kSourceBytesMax + 1, '#');
  std::filesystem::create_directories(files.Path("nothing"));
  EvalOptions options;
  options.task = files.Path("tasks/01_a.py");
  options.candidates = {files.Path("gone.py")};
  CHECK_THAT(ErrorOf(options), Contains("gone.py: check the path"));
  options.candidates = {files.Path("empty.py")};
  CHECK_THAT(ErrorOf(options), Contains("is empty"));
  options.candidates = {files.Path("large.py")};
  CHECK_THAT(ErrorOf(options), Contains("is larger than 1.0 MiB"));
  options.candidates = {files.Path("tasks")};
  CHECK_THAT(ErrorOf(options), Contains("is a folder; for a whole folder use --suite"));
  options.task = "31";
  CHECK_THAT(ErrorOf(options), Contains("--tasks FOLDER"));
  options.tasks_folder = files.Path("tasks");
  CHECK_THAT(ErrorOf(options), Contains("no task \"31\" among 1 tasks"));

  EvalOptions suite;
  suite.candidate_folders = {files.Path("c")};
  suite.suite = files.Path("gone");
  CHECK_THAT(ErrorOf(suite), Contains("no folder"));
  suite.suite = files.Path("nothing");
  CHECK_THAT(ErrorOf(suite), Contains("no Python file (*.py) in folder"));
  suite.suite = files.Path("deep");
  CHECK_THAT(ErrorOf(suite), Contains("there are some in") && Contains("deep/level1"));
  suite.suite = files.Path("tasks");
  CHECK_THAT(ErrorOf(suite), Contains("has the number of a task"));
  suite.only = "5";
  CHECK_THAT(ErrorOf(suite), Contains("--only 5"));
}

TEST_CASE("Plan: a client key is the run's, the item's and the bytes' own", "[cli]") {
  const std::string key = ClientKey("r1", 0, "v", "source");
  CHECK(key == ClientKey("r1", 0, "v", "source"));
  CHECK(key != ClientKey("r2", 0, "v", "source"));
  CHECK(key != ClientKey("r1", 1, "v", "source"));
  CHECK(key != ClientKey("r1", 0, "v", "other"));
  CHECK(key.size() <= 128);
}

}  // namespace pike::cli
