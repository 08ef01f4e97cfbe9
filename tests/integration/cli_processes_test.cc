// The real processes: `pike up`, `pike eval` and PyTorch on the CPU.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <google/protobuf/util/json_util.h>

#include "common/base/file.h"
#include "pike/v1/admin.pb.h"
#include "pike/v1/evaluation.pb.h"
#include "tests/testing/catch.h"
#include "tests/testing/metrics_page.h"
#include "tests/testing/program.h"

namespace pike {
namespace {

namespace fs = std::filesystem;
using testing::BinPath;
using testing::Contains;
using testing::Program;

std::string SourceDir() {
  return std::getenv("PIKE_SOURCE_DIR");
}

// `pike up` in folders of its own, without a GPU wherever it runs.
class Up {
 public:
  explicit Up(std::vector<std::string> extra = {}, std::string metrics_base_port = "off")
      : folder_(*TempFolder::Create("pike-up")), metrics_base_port_(std::move(metrics_base_port)) {
    Start(std::move(extra));
  }

  void Start(std::vector<std::string> extra = {}) {
    std::vector<std::string> argv = {
        BinPath("pike"), "--runtime-dir", runtime_dir(), "up", "--store", folder_.path() + "/state",
        "--metrics-base-port", metrics_base_port_, "--gpus", "none",
        // Half a minute of each test; one of them turns them on again.
        "--canaries", "off",
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
  std::string state_dir() const { return folder_.path() + "/state"; }
  Program& program() { return *program_; }

 private:
  TempFolder folder_;
  const std::string metrics_base_port_;
  std::unique_ptr<Program> program_;
};

// What each process serves once it has worked. Base units, and names by Prometheus' conventions.
const std::map<std::string, std::set<std::string>> kMetrics = {
    {"pike-coordinator",
     {"gauge pike_coordinator_queue_depth{stage}",
      "histogram pike_coordinator_queue_wait_seconds{stage}", "gauge pike_coordinator_leases{kind}",
      "counter pike_coordinator_verdicts_total{verdict}",
      "counter pike_coordinator_retries_total{reason}",
      "counter pike_coordinator_canary_rounds_total{outcome}",
      "counter pike_coordinator_verdicts_withdrawn_total{}",
      "gauge pike_coordinator_workers{kind,state}",
      "histogram pike_coordinator_stage_seconds{stage}",
      "histogram pike_coordinator_commit_seconds{}",
      "counter pike_coordinator_log_records_total{}"}},
    {"pike-compile-worker",
     {"gauge pike_worker_slots{}", "gauge pike_worker_busy_slots{}",
      "histogram pike_worker_stage_seconds{stage}", "histogram pike_build_seconds{outcome}",
      "counter pike_build_requests_total{source}"}},
    {"pike-gpu-worker",
     {"gauge pike_worker_slots{}", "gauge pike_worker_busy_slots{}",
      "histogram pike_worker_stage_seconds{stage}",
      "histogram pike_gpu_worker_lock_wait_seconds{device,operation}",
      "histogram pike_gpu_worker_lock_held_seconds{device,operation}"}},
    {"pike-up", {"gauge pike_up_running{process}", "counter pike_up_restarts_total{process}"}},
};

// Scrapes every process of `up`, which has evaluated something, and compares with the list above
// and with the table in the operator's guide.
void CheckMetrics(const Up& up) {
  const std::string guide = *ReadFile(SourceDir() + "/docs/operator-guide.md", 1 << 20);
  for (const auto& [process, expected] : kMetrics) {
    INFO(process);
    const auto address = ReadFile(up.runtime_dir() + "/metrics/" + process, 256);
    REQUIRE(address.ok());
    const auto families =
        testing::ParseMetrics(testing::Scrape(std::string(absl::StripAsciiWhitespace(*address))));
    std::set<std::string> served;
    for (const auto& [name, family] : families) {
      INFO(name);
      served.insert(testing::Signature(name, family));
      CHECK_FALSE(family.help.empty());
      CHECK(absl::EndsWith(name, "_total") == (family.type == "counter"));
      CHECK(absl::EndsWith(name, "_seconds") == (family.type == "histogram"));
      CHECK_THAT(guide, Contains("`" + name + "`"));
    }
    for (const std::string& signature : expected)
      CHECK_THAT(std::vector<std::string>(served.begin(), served.end()),
                 Catch::Matchers::VectorContains(signature));
    for (const char* name :
         {"pike_worker_slots", "pike_worker_stage_seconds", "pike_coordinator_verdicts_total",
          "pike_gpu_worker_lock_held_seconds", "pike_build_seconds"}) {
      INFO(name);
      if (process != "pike-gpu-worker" || !absl::StrContains(name, "build"))
        CHECK((!families.contains(name) || families.at(name).total > 0));
    }
  }
}

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

std::string VerdictOf(const v1::EvaluationRecord& record) {
  const std::string name = v1::VerdictKind_Name(record.verdict().kind());
  return absl::AsciiStrToLower(absl::StripPrefix(name, "VERDICT_KIND_"));
}

std::string VerdictOf(const std::string& json) {
  v1::EvaluationRecord record;
  if (!google::protobuf::util::JsonStringToMessage(json, &record).ok())
    return "no record: " + json;
  return VerdictOf(record);
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

// Evaluates every candidate at once on the task of its number and checks each verdict.
void CheckVerdicts(const Up& up, const std::vector<std::string>& candidates) {
  std::map<std::string, std::unique_ptr<Program>> runs;
  for (const std::string& path : candidates) {
    const Expectation expectation = ReadExpectation(path);
    if (expectation.needs_gpu)
      continue;
    const std::string number = fs::path(path).filename().string().substr(0, 2);
    std::vector<std::string> command = {"eval",    number,
                                        path,      "--json",
                                        "--set",   "timed_ms_max=50",
                                        "--tasks", SourceDir() + "/examples/tasks"};
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

// Time that a candidate may take: the deadlines of what it reaches, and some for the service.
double AllowedMs(const v1::Policy& policy) {
  constexpr double kServiceMs = 15'000;
  return kServiceMs + policy.compile_timeout_ms() + policy.load_timeout_ms() +
         policy.first_call_timeout_ms();
}

// Evaluates a hostile candidate and, right behind it on the only slot, a well-behaved one.
void CheckHostile(const Up& up, const std::string& task, const std::string& hostile,
                  const std::string& good) {
  const Expectation expectation = ReadExpectation(hostile);
  std::vector<std::string> command = {"eval", task, hostile, good, "--json"};
  std::vector<std::string> policy = {"timed_ms_max=50", "compile_timeout_ms=20000",
                                     "load_timeout_ms=20000"};
  policy.insert(policy.end(), expectation.policy.begin(), expectation.policy.end());
  for (const std::string& assignment : policy)
    command.insert(command.end(), {"--set", assignment});
  const auto outcome = up.Client(command)->Finish();
  INFO(hostile << "\n" << outcome.out << outcome.err);
  std::map<std::string, v1::EvaluationRecord> records;  // by id: in the order of submission
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n', absl::SkipEmpty())) {
    v1::EvaluationRecord record;
    REQUIRE(google::protobuf::util::JsonStringToMessage(std::string(line), &record).ok());
    records[record.evaluation_id()] = record;
  }
  REQUIRE(records.size() == 2);
  const v1::EvaluationRecord& first = records.begin()->second;
  CHECK(std::vector<std::string>{VerdictOf(first)} == expectation.verdicts);
  CHECK(VerdictOf(records.rbegin()->second) == "valid");
  const v1::StageTimes& times = first.times();
  const double taken = times.total_ms() - times.queued_compile_ms() - times.queued_run_ms();
  CHECK(taken <= AllowedMs(first.policy()));
}

// Every regular file of a folder.
std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      paths.push_back(entry.path().string());
  }
  return paths;
}

// Ids of the workers, by the process of each.
std::map<std::string, std::string> WorkerIds(const Up& up) {
  std::map<std::string, std::string> ids;
  const auto outcome = up.Client({"workers", "--json"})->Finish();
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n', absl::SkipEmpty())) {
    v1::WorkerRecord worker;
    REQUIRE(google::protobuf::util::JsonStringToMessage(std::string(line), &worker).ok());
    const std::vector<std::string> parts = absl::StrSplit(worker.worker_id(), '-');
    REQUIRE(parts.size() >= 4);  // kind, host, process, random
    ids[parts[parts.size() - 2]] = worker.worker_id();
    CHECK(worker.capabilities_size() > 8);
  }
  return ids;
}

// The attacking task with its targets: the service's files, socket and processes.
std::string WriteAttack(const Up& up, const std::vector<std::string>& pids) {
  std::vector<std::string> files = FilesIn(up.state_dir());
  files.push_back(up.state_dir() + "/new");
  files.push_back(up.runtime_dir() + "/new");
  const auto quoted = [](const std::vector<std::string>& texts) {
    return absl::StrCat("['", absl::StrJoin(texts, "', '"), "']");
  };
  const std::string path = up.runtime_dir() + "/attack.py";
  const std::string text =
      absl::StrCat("TARGETS = (", quoted(files), ", '", up.runtime_dir(), "/pike.sock', [",
                   absl::StrJoin(pids, ", "), "])\n",
                   *ReadFile(SourceDir() + "/tests/integration/hostile_task/task.py", 1 << 20));
  REQUIRE(WriteFileAtomic(path, text).ok());
  return path;
}

}  // namespace

TEST_CASE("pike up: the examples end with the verdicts they announce, counted and kept", "[cli]") {
  Up up({}, absl::StrCat(20'000 + ::getpid() % 10'000));
  up.WaitUntilReady();
  CheckVerdicts(up, CandidatesIn(SourceDir() + "/examples/candidates"));
  CheckMetrics(up);
  up.program().Signal(SIGINT);
  CHECK(up.program().Finish().exit_code == 0);

  // The verdicts are still there after a restart.
  up.Start({"--until-idle", "--idle-grace", "5"});
  up.WaitUntilReady();
  CHECK_THAT(up.Client({"--wait", "0", "list", "-n", "100"})->Finish().out,
             Contains("04_row_statistics") && Contains("valid") && Contains("load_error"));
  CHECK(up.program().Finish().exit_code == 0);
}

// One service for all, since the next candidate on the same worker is half of what is checked.
TEST_CASE("pike up: hostile candidates end rightly and in time, and the next one is fine",
          "[cli]") {
  const std::string folder = SourceDir() + "/tests/integration/hostile";
  const std::string good = folder + "/good/well_behaved.py";
  Up up({"--gpu-slots", "1", "--compile-slots", "1"});
  up.WaitUntilReady();
  for (const std::string& path : CandidatesIn(folder)) {
    if (path != good)
      CheckHostile(up, folder + "/task.py", path, good);
  }
  up.program().Signal(SIGTERM);
  CHECK(up.program().Finish().exit_code == 0);
}

// The attack runs in the judge and in both runners; a good evaluation runs beside it.
TEST_CASE("pike up: a task that attacks spoils nothing but its own verdict", "[cli]") {
  const std::string folder = SourceDir() + "/tests/integration/hostile";
  const std::vector<std::string> good = {"eval", folder + "/task.py",
                                         folder + "/good/well_behaved.py", "--json"};
  Up up({"--gpu-slots", "2", "--compile-slots", "1"});
  up.WaitUntilReady();
  CHECK(VerdictOf(up.Client(good)->Finish().out) == "valid");
  const auto workers = WorkerIds(up);
  REQUIRE(workers.size() == 2);
  std::vector<std::string> pids = {std::to_string(up.program().pid())};
  for (const auto& [pid, id] : workers)
    pids.push_back(pid);
  const auto attack =
      up.Client({"eval", WriteAttack(up, pids), "reference", "--json", "--set", "timed_ms_max=50"});
  const auto beside = up.Client(good);
  const auto good_outcome = beside->Finish();
  const auto attack_outcome = attack->Finish();
  INFO(good_outcome.err << attack_outcome.out << attack_outcome.err);
  CHECK(VerdictOf(good_outcome.out) == "valid");
  // It has a verdict of its own, whichever that is.
  CHECK_FALSE(absl::StartsWith(VerdictOf(attack_outcome.out), "no record"));
  CHECK(VerdictOf(up.Client(good)->Finish().out) == "valid");
  CHECK(WorkerIds(up) == workers);
  CHECK_FALSE(fs::exists(up.state_dir() + "/new"));
  CHECK_FALSE(fs::exists(up.runtime_dir() + "/new"));
  for (const std::string& path : FilesIn(up.state_dir())) {
    INFO(path);
    CHECK_FALSE(absl::EndsWith(ReadFile(path, 64 << 20).value_or(""), "the task was here"));
  }
  up.program().Signal(SIGTERM);
  CHECK(up.program().Finish().exit_code == 0);
}

TEST_CASE("Workers: a layer that is required and missing is named, in one line", "[cli]") {
  const TempFolder folder = *TempFolder::Create("pike-required");
  for (const char* worker : {"pike-compile-worker", "pike-gpu-worker"}) {
    const auto outcome =
        Program({BinPath(worker), "--require-sandbox", "--without-cgroups", "--python",
                 std::getenv("PIKE_PYTHON"), "--service", "unix:" + folder.path() + "/none.sock",
                 "--runtime-dir", folder.path() + "/run", "--cache-dir", folder.path() + "/cache",
                 "--metrics-address", "off"})
            .Finish();
    INFO(worker << "\n" << outcome.err);
    CHECK(outcome.exit_code == 1);
    CHECK_THAT(outcome.err, Contains("--require-sandbox: this machine lacks cgroup-memory, "
                                     "cgroup-freezer ("));
  }
}

TEST_CASE("pike up: a second one on the same runtime folder is refused", "[cli]") {
  Up up;
  up.program().ReadUntil("starting pike");
  const auto outcome = up.Client({"up", "--gpus", "none"})->Finish();
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

TEST_CASE("pike up: a GPU that is not there is refused with a clear line", "[cli]") {
  const auto folder = TempFolder::Create("pike-up");
  const std::vector<std::string> argv = {BinPath("pike"),
                                         "--runtime-dir",
                                         folder->path() + "/run",
                                         "up",
                                         "--store",
                                         folder->path() + "/state",
                                         "--metrics-base-port",
                                         "off",
                                         "--gpus",
                                         "99"};
  const auto outcome = Program(argv).Finish();
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, Contains("--gpus: no GPU '99': "));
}

}  // namespace pike
