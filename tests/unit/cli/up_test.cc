#include <signal.h>

#include <algorithm>

#include "cli/python_finder.h"
#include "cli/up/child_plan.h"
#include "cli/up/child_process.h"
#include "cli/up/idle_policy.h"
#include "cli/up/restart_policy.h"
#include "common/base/file.h"
#include "tests/testing/catch.h"

namespace pike::cli {

using Catch::Matchers::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;

TEST_CASE("RestartPolicy: pauses double and end in giving up", "[cli]") {
  RestartPolicy policy;
  CHECK(policy.OnDeath(seconds(1)) == milliseconds(500));
  CHECK(policy.OnDeath(seconds(1)) == milliseconds(1'000));
  CHECK(policy.OnDeath(seconds(1)) == milliseconds(2'000));
  CHECK(policy.OnDeath(seconds(1)) == milliseconds(4'000));
  CHECK_FALSE(policy.OnDeath(seconds(1)).has_value());
}

TEST_CASE("RestartPolicy: a long life is forgiven", "[cli]") {
  RestartPolicy policy;
  for (int i = 0; i < 4; i++)
    REQUIRE(policy.OnDeath(seconds(1)).has_value());
  CHECK(policy.OnDeath(seconds(60)) == milliseconds(0));
  CHECK(policy.OnDeath(seconds(1)) == milliseconds(500));
}

TEST_CASE("RestartPolicy: the pause is bounded", "[cli]") {
  RestartPolicy::Limits limits;
  limits.young_deaths_max = 20;
  RestartPolicy policy(limits);
  for (int i = 0; i < 18; i++)
    policy.OnDeath(seconds(1));
  CHECK(policy.OnDeath(seconds(1)) == limits.pause_max);
}

TEST_CASE("IdlePolicy: ends once work was done and none is left", "[cli]") {
  const MonoTime start{};
  IdlePolicy policy({seconds(60), seconds(3)});
  CHECK_FALSE(policy.OnStatus(0, 7, start));
  CHECK_FALSE(policy.OnStatus(2, 7, start + seconds(10)));
  CHECK_FALSE(policy.OnStatus(0, 9, start + seconds(11)));
  CHECK_FALSE(policy.OnStatus(1, 9, start + seconds(13)));  // the next thing came in time
  CHECK_FALSE(policy.OnStatus(0, 10, start + seconds(20)));
  CHECK(policy.OnStatus(0, 10, start + seconds(23)));
}

TEST_CASE("IdlePolicy: ends when nothing ever came", "[cli]") {
  const MonoTime start{};
  IdlePolicy policy({seconds(60), seconds(3)});
  CHECK_FALSE(policy.OnStatus(0, 7, start));
  CHECK_FALSE(policy.OnStatus(0, 7, start + seconds(59)));
  CHECK(policy.OnStatus(0, 7, start + seconds(60)));
}

TEST_CASE("IdlePolicy: work too short to be seen counts", "[cli]") {
  const MonoTime start{};
  IdlePolicy policy({seconds(60), seconds(3)});
  CHECK_FALSE(policy.OnStatus(0, 7, start));
  CHECK(policy.OnStatus(0, 8, start + seconds(4)));
}

TEST_CASE("ChildPlan: metrics ports and GPUs", "[cli]") {
  CHECK(*MetricsPorts("9464") == std::vector<int>{9464, 9465, 9466, 9467});
  CHECK(*MetricsPorts("0") == std::vector<int>{0, 0, 0, 0});
  CHECK(MetricsPorts("off")->empty());
  CHECK_FALSE(MetricsPorts("65535").ok());
  CHECK_FALSE(MetricsPorts("-1").ok());
  CHECK_FALSE(MetricsPorts("on").ok());
  UpSettings settings;
  REQUIRE(ResolveGpus("none", {}, &settings).ok());
  CHECK(settings.devices == "cpu");
  CHECK(settings.gpu_classes == std::vector<std::string>{"cpu"});
  CHECK_FALSE(ResolveGpus("all", {}, &settings).ok());
  const device::GpuInfo gpu{"GPU-1", "NVIDIA H200", "9.0"};
  REQUIRE(ResolveGpus("0", {gpu}, &settings).ok());
  CHECK(settings.devices == "0");
  CHECK(settings.gpu_classes == std::vector<std::string>{"nvidia-h200"});
  CHECK_FALSE(settings.compile_cores.empty());
  CHECK_FALSE(ResolveGpus("0,1", {gpu}, &settings).ok());
}

TEST_CASE("ChildPlan: the coordinator comes first and workers get their slots", "[cli]") {
  UpSettings settings;
  settings.target = "unix:/r/pike.sock";
  settings.compile_slots = 3;
  settings.devices = "all";
  settings.metrics_addresses = {"off", "off", "off"};
  const auto children = PlanChildren(settings);
  REQUIRE(children.size() == 3);
  CHECK(children[0].name == "pike-coordinator");
  const auto& argv = children[1].argv;
  CHECK(std::find(argv.begin(), argv.end(), "3") != argv.end());
  CHECK(std::find(argv.begin(), argv.end(), settings.target) != argv.end());
  const auto& gpu_argv = children[2].argv;
  CHECK(std::find(gpu_argv.begin(), gpu_argv.end(), "all") != gpu_argv.end());
}

TEST_CASE("ChildPlan: caches lie in the state folder unless told otherwise", "[cli]") {
  UpSettings settings;
  settings.state_dir = "/s";
  settings.metrics_addresses = {"off", "off", "off"};
  const auto has = [](const ChildPlan& plan, const std::string& argument) {
    return std::find(plan.argv.begin(), plan.argv.end(), argument) != plan.argv.end();
  };
  const auto children = PlanChildren(settings);
  CHECK(has(children[1], "/s/compile-worker"));
  CHECK(has(children[2], "/s/gpu-worker"));
  settings.cache_dir = "/c";
  CHECK(has(PlanChildren(settings)[2], "/c/pike-gpu-worker"));
}

TEST_CASE("ChildPlan: both workers require the sandbox if asked to", "[cli]") {
  UpSettings settings;
  settings.metrics_addresses = {"off", "off", "off"};
  for (const bool is_required : {false, true}) {
    settings.is_sandbox_required = is_required;
    const auto children = PlanChildren(settings);
    for (size_t i = 0; i < children.size(); ++i) {
      const auto& argv = children[i].argv;
      const bool has_flag = std::find(argv.begin(), argv.end(), "--require-sandbox") != argv.end();
      CHECK(has_flag == (is_required && i > 0));
    }
  }
}

TEST_CASE("ChildPlan: canaries can be left out", "[cli]") {
  UpSettings settings;
  settings.metrics_addresses.assign(4, "off");
  const auto has_switch = [&settings] {
    const auto argv = PlanChildren(settings)[0].argv;
    return std::find(argv.begin(), argv.end(), "--canary-interval-s") != argv.end();
  };
  CHECK_FALSE(has_switch());
  settings.has_canaries = false;
  CHECK(has_switch());
}

TEST_CASE("ChildPlan: all problems are told at once", "[cli]") {
  const auto folder = TempFolder::Create("pike-up");
  UpOptions options;
  options.gpus = "nonsense";
  options.store = folder->path();
  options.listen = "0.0.0.0:1";
  options.python = "/nowhere/python";
  options.metrics_base_port = "x";
  const auto settings = ResolveUpOptions(options, folder->path());
  REQUIRE_FALSE(settings.ok());
  CHECK_THAT(std::string(settings.status().message()),
             Contains("no GPU 'nonsense'") && Contains("\n0.0.0.0:1") &&
                 Contains("\nno program /nowhere/python") && Contains("\n--metrics-base-port"));
}

TEST_CASE("FindPython: a name is looked up, a path made absolute", "[cli]") {
  CHECK(*FindPython("sh") == FindOnPath("sh"));
  CHECK(FindPython("/bin/../bin/sh").ok());
  CHECK_THAT(std::string(FindPython("no-such-python").status().message()),
             StartsWith("no program no-such-python: "));
}

TEST_CASE("ChildProcess: its end says how it ended", "[cli]") {
  CHECK(ProcessEnd{3, 0}.ToText() == "exit status 3");
  CHECK(ProcessEnd{0, SIGKILL}.ToText() == "signal 9 (KILL)");
  CHECK_FALSE(ChildProcess::Start({"/nowhere/pike-coordinator"}).ok());
}

}  // namespace pike::cli
