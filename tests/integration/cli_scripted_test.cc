// Drives the real `pike` against a service in this process that answers by script: the verdict is
// the word in the candidate's file name.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <vector>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <google/protobuf/util/json_util.h>

#include "common/base/file.h"
#include "pike/v1/evaluation.pb.h"
#include "tests/integration/cli_scripted_service.h"
#include "tests/testing/catch.h"
#include "tests/testing/program.h"

namespace pike {
namespace {

using testing::Contains;
using testing::Program;
using testing::Script;
using testing::Service;

// A folder with a task and candidates, a service, and the command.
class Bench {
 public:
  Bench() : folder_(*TempFolder::Create("pike-cli")), target_("unix:" + Path("s")) {
    Write("tasks/01_task.py");
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Write(const std::string& name) const {
    const std::string path = Path(name);
    const std::string parent = path.substr(0, path.rfind('/'));
    ::mkdir(parent.c_str(), 0700);
    std::ofstream(path) << "# " << name << "\n";
    return path;
  }
  void StartService() { service_ = std::make_unique<Service>(&script_, target_); }
  void StopService() { service_.reset(); }
  Script& script() { return script_; }

  std::unique_ptr<Program> Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {testing::BinPath("pike"), "--service", target_});
    return std::make_unique<Program>(std::move(arguments));
  }
  Program::Outcome Run(const std::vector<std::string>& arguments) {
    return Start(arguments)->Finish();
  }

 private:
  TempFolder folder_;
  std::string target_;
  Script script_;
  std::unique_ptr<Service> service_;
};

}  // namespace

TEST_CASE("pike eval: all valid ends with 0 and a table", "[cli]") {
  Bench bench;
  bench.StartService();
  const auto outcome = bench.Run({"eval", bench.Path("tasks/01_task.py"), bench.Write("valid.py"),
                                  "reference", "--set", "timed_calls_max=7"});
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("task tasks/01_task\n") && Contains("\nreference ") &&
                              Contains("valid 2 of 2"));
  CHECK_THAT(outcome.err, Contains("[2/2]"));
  CHECK(bench.script().All()[0].policy().timed_calls_max() == 7);
}

TEST_CASE("pike eval: not valid ends with 1 and nobody's escape sequences get through", "[cli]") {
  Bench bench;
  bench.StartService();
  const auto outcome =
      bench.Run({"eval", bench.Path("tasks/01_task.py"), bench.Write("incorrect.py")});
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.out, Contains("because of incorrect\\x1b[31mred"));
  CHECK((outcome.out + outcome.err).find('\x1b') == std::string::npos);
}

TEST_CASE("pike eval: infra_error and refused work end with 4", "[cli]") {
  Bench bench;
  bench.StartService();
  const std::string task = bench.Path("tasks/01_task.py");
  CHECK(bench.Run({"eval", task, bench.Write("infra.py")}).exit_code == 4);
  const auto outcome = bench.Run({"eval", task, bench.Write("refused.py")});
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.out, Contains("refused: no worker can do that"));
}

TEST_CASE("pike eval: a policy that the service does not take ends with 2 and one line", "[cli]") {
  Bench bench;
  bench.StartService();
  const auto outcome = bench.Run({"eval", bench.Path("tasks/01_task.py"), bench.Write("valid.py"),
                                  "reference", "--policy", "nonsense"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err == "pike: there is no such policy\n");
}

TEST_CASE("pike eval: a service that does not take the task now ends with 4", "[cli]") {
  Bench bench;
  bench.StartService();
  const auto outcome = bench.Run({"eval", bench.Write("tasks/02_busy.py"), "reference"});
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.err, Contains("busy; retry later"));
}

TEST_CASE("pike eval: refused work leaves a line even with --json and -q", "[cli]") {
  Bench bench;
  bench.StartService();
  const auto outcome = bench.Run({"eval", bench.Path("tasks/01_task.py"), bench.Write("refused.py"),
                                  "reference", "--json", "-q"});
  CHECK(outcome.exit_code == 4);
  CHECK_THAT(outcome.err, Contains("refused.py: refused: no worker can do that\n"));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
}

TEST_CASE("pike eval: --json prints records and nothing else on standard output", "[cli]") {
  Bench bench;
  bench.StartService();
  bench.Write("c/01_valid.py");
  bench.Write("c/01_incorrect.py");
  const auto outcome = bench.Run(
      {"eval", "--suite", bench.Path("tasks"), "--candidates", bench.Path("c"), "--json"});
  CHECK(outcome.exit_code == 1);
  const std::vector<std::string> lines = absl::StrSplit(outcome.out, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 2);
  for (const std::string& line : lines) {
    v1::EvaluationRecord record;
    CHECK(google::protobuf::util::JsonStringToMessage(line, &record).ok());
    CHECK(record.stage() == v1::STAGE_ENDED);
  }
}

TEST_CASE("pike eval: an interrupt cancels what was submitted and ends with 130", "[cli]") {
  Bench bench;
  bench.StartService();
  const auto program =
      bench.Start({"eval", bench.Path("tasks/01_task.py"), bench.Write("waits.py")});
  bench.script().WaitForWatches(1);
  program->Signal(SIGINT);
  const auto outcome = program->Finish();
  CHECK(outcome.exit_code == 130);
  CHECK(bench.script().cancelled() == 1);
  CHECK_THAT(outcome.out, Contains("1 cancelled"));
}

TEST_CASE("pike eval: a restart of the service in between changes nothing", "[cli]") {
  Bench bench;
  bench.StartService();
  const auto program =
      bench.Start({"eval", bench.Path("tasks/01_task.py"), bench.Write("waits.py")});
  bench.script().WaitForWatches(1);
  bench.StopService();
  bench.StartService();
  bench.script().WaitForWatches(2);
  bench.script().EndAll();
  const auto outcome = program->Finish();
  CHECK(outcome.exit_code == 0);
  CHECK(bench.script().All().size() == 1);
}

TEST_CASE("pike eval: the same run id finds the same evaluation, another run a new one", "[cli]") {
  Bench bench;
  bench.StartService();
  const std::vector<std::string> command = {"eval", bench.Path("tasks/01_task.py"),
                                            bench.Write("valid.py")};
  std::vector<std::string> named = command;
  named.insert(named.end(), {"--run-id", "r1"});
  CHECK(bench.Run(named).exit_code == 0);
  CHECK(bench.Run(named).exit_code == 0);
  CHECK(bench.script().All().size() == 1);
  CHECK(bench.Run(command).exit_code == 0);
  CHECK(bench.script().All().size() == 2);
}

TEST_CASE("pike: a service that is not there ends with 3 and says what to do", "[cli]") {
  Bench bench;
  const std::string task = bench.Path("tasks/01_task.py");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", task, "reference"}, {"list"}, {"workers"}}) {
    std::vector<std::string> arguments = {"--wait", "0"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const auto outcome = bench.Run(arguments);
    CHECK(outcome.exit_code == 3);
    CHECK_THAT(outcome.err, Contains("start it with `pike up`"));
  }
}

TEST_CASE("pike: a service that comes a little later is waited for", "[cli]") {
  Bench bench;
  const auto program = bench.Start({"workers", "--wait", "60"});
  bench.StartService();
  const auto outcome = program->Finish();
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("gpu-host-1"));
}

TEST_CASE("pike: bad arguments end with 2, help with 0 and an example", "[cli]") {
  Bench bench;
  CHECK(bench.Run({"eval"}).exit_code == 2);
  CHECK(bench.Run({"eval", "--no-such-option"}).exit_code == 2);
  CHECK(bench.Run({"no-such-command"}).exit_code == 2);
  CHECK(bench.Run({}).exit_code == 2);
  CHECK(bench.Run({"eval", "gone.py", "reference"}).exit_code == 2);
  for (const std::string command :
       {"up", "eval", "get", "list", "cancel", "workers", "drain", "task", "doctor", "version"}) {
    const auto outcome = bench.Run({command, "--help"});
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.out, Contains("Example") && Contains("pike " + command));
  }
}

TEST_CASE("pike get, list, cancel, workers, task: show what the service says", "[cli]") {
  Bench bench;
  bench.StartService();
  bench.Run({"eval", bench.Path("tasks/01_task.py"), bench.Write("incorrect.py")});
  const auto get = bench.Run({"get", "e1"});
  CHECK(get.exit_code == 0);
  CHECK_THAT(get.out, Contains("verdict      incorrect"));
  CHECK(get.out.find('\x1b') == std::string::npos);
  CHECK_THAT(bench.Run({"get", "e1", "--json"}).out, Contains("\"evaluationId\":\"e1\""));
  CHECK(bench.Run({"get", "e9"}).exit_code == 1);
  CHECK_THAT(bench.Run({"list", "-n", "1"}).out,
             Contains("e1") && Contains("incorrect") && Contains("older ones exist"));
  CHECK_THAT(bench.Run({"cancel", "e1"}).out, Contains("e1: cancelled"));
  CHECK_THAT(bench.Run({"workers"}).out, Contains("gpu-host-1") && Contains("7 ended"));
  CHECK_THAT(bench.Run({"workers", "--json"}).out, Contains("{\"workerId\":\"gpu-host-1\","));
  CHECK(bench.Run({"drain", "gpu-host-1"}).out == "gpu-host-1: draining, 1 leases left\n");
  CHECK(bench.Run({"drain", "gpu-host-2"}).exit_code == 1);
  CHECK_THAT(bench.Run({"task", "list"}).out, Contains("suite/01_task"));
  CHECK_THAT(bench.Run({"task", "list", "--json"}).out, Contains(std::string(64, 'f')));
  CHECK_THAT(bench.Run({"task", "register", bench.Path("tasks/01_task.py")}).out,
             Contains("0123456789abcdef  tasks/01_task"));
  CHECK_THAT(bench.Run({"version"}).out, Contains("pike "));
}

}  // namespace pike
