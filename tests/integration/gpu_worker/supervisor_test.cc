// The supervisor with real sandboxes, judge and runners, without gRPC.

#include "gpu_worker/supervisor/supervisor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/unique_fd.h"
#include "common/build/local_builder.h"
#include "common/build/toolchain.h"
#include "tests/testing/catch.h"
#include "tests/testing/process_tree.h"

namespace pike::gpu {
namespace {

constexpr char kTask[] = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(16, 64)]

def get_init_inputs():
    return [64]
)";

std::string Candidate(const std::string& forward, const std::string& top = "") {
  return R"(
import os, signal, sys, time
import torch
import torch.nn as nn
)" + top +
         R"(
class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x):
        )" +
         forward + "\n";
}

const char* const kGood = "return torch.relu(self.linear(x))";

std::string Env(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(value != nullptr);
  return value;
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  INFO(value.status());
  REQUIRE(value.ok());
  return *std::move(value);
}

// One supervisor on this machine's CPU. Slow to make: it imports torch several times.
class SupervisorFixture {
 public:
  SupervisorFixture() {
    host = Must(sandbox::SandboxHost::Create({}));
    NodeOptions options;
    options.share_dir = Env("PIKE_SOURCE_DIR") + "/common";
    options.toolchain =
        Must(build::ProbeToolchain({Env("PIKE_PYTHON"), options.share_dir, folder.path()}));
    options.native_dir = Env("PIKE_BIN_DIR") + "/../native/current";
    options.runtime_dir = folder.path();
    options.runner_memory_bytes_max = int64_t{1} << 30;
    options.judge_memory_bytes_max = int64_t{2} << 30;
    options.threads = 1;
    build::LocalBuilderOptions builder_options;
    builder_options.toolchain = options.toolchain;
    builder = std::make_unique<build::LocalBuilder>(builder_options, host.get());
    build::BrokerOptions broker_options;
    broker_options.cache_dir = folder.path() + "/artifacts";
    broker_options.toolchain_digest = options.toolchain.toolchain.Digest();
    broker = Must(build::Broker::Create(broker_options, &store, builder.get()));
    node = Must(Node::Create(std::move(options), host.get()));
    SupervisorOptions supervisor_options;
    supervisor_options.device.set_device_id("cpu");
    supervisor_options.device.set_gpu_class("cpu");
    supervisor = Must(Supervisor::Create(supervisor_options, node.get(), broker.get()));
  }

  static EvaluationRequest Request(const std::string& candidate) {
    EvaluationRequest request;
    request.task = {Sha256Hex(kTask), kTask, 7, "Model"};
    request.candidate_source = candidate;
    request.arch = "cpu";
    v1::Policy& policy = request.policy;
    policy.set_atol(1e-2);
    policy.set_rtol(1e-2);
    policy.set_correctness_trials(5);
    policy.set_warmup_calls(2);
    policy.set_timed_calls_max(20);
    policy.set_timed_ms_max(200);
    policy.set_build_timeout_ms(240'000);
    policy.set_load_timeout_ms(60'000);
    policy.set_first_call_timeout_ms(60'000);
    policy.set_call_timeout_ms(10'000);
    return request;
  }

  v1::LeaseResult Evaluate(const EvaluationRequest& request) {
    return supervisor->Evaluate(
        request,
        [this](v1::Stage stage) {
          if (stage == kill_at)
            killed += testing::KillAll(testing::Descendants(::getpid(), kill_word));
          if (killed >= kills_max)
            kill_at = v1::STAGE_UNSPECIFIED;
        },
        stop.get_token());
  }
  v1::LeaseResult Evaluate(const std::string& candidate) { return Evaluate(Request(candidate)); }

  v1::Verdict VerdictOf(const std::string& candidate) {
    const v1::LeaseResult result = Evaluate(candidate);
    INFO(result.ShortDebugString());
    CHECK(result.has_verdict());
    return result.verdict();
  }

  bool IsLockFree() const {
    const UniqueFd file(::open((folder.path() + "/locks/cpu.lock").c_str(), O_RDWR | O_CLOEXEC));
    return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  }

  TempFolder folder = Must(TempFolder::Create("pike-supervisor"));
  std::unique_ptr<sandbox::SandboxHost> host;
  build::MemoryArtifactStore store;
  std::unique_ptr<build::LocalBuilder> builder;
  std::unique_ptr<build::Broker> broker;
  std::unique_ptr<Node> node;
  std::unique_ptr<Supervisor> supervisor;
  std::stop_source stop;
  // The processes with this word in their command line are killed when this stage begins.
  v1::Stage kill_at = v1::STAGE_UNSPECIFIED;
  std::string kill_word;
  int killed = 0;
  int kills_max = 1;
};

TEST_CASE("Supervisor: every kind of candidate gets its verdict, the next one is unaffected") {
  SupervisorFixture fixture;
  const v1::Verdict good = fixture.VerdictOf(Candidate(kGood));
  INFO(good.ShortDebugString());
  CHECK(good.kind() == v1::VERDICT_KIND_VALID);
  CHECK(good.measurement().candidate().calls() >= 3);
  CHECK(good.measurement().speedup() > 0);
  CHECK(good.correctness().calls_compared() >= 8);
  CHECK(good.correctness().calls_passed() == good.correctness().calls_compared());
  CHECK(good.evidence().device_id() == "cpu");

  const v1::Verdict wrong = fixture.VerdictOf(Candidate("return torch.relu(self.linear(x)) + 1"));
  CHECK(wrong.kind() == v1::VERDICT_KIND_INCORRECT);
  CHECK_FALSE(wrong.correctness().first_failure().empty());
  CHECK_FALSE(wrong.has_measurement());

  const v1::Verdict left = fixture.VerdictOf(Candidate(kGood, "sys.exit(0)\n"));
  CHECK(left.kind() == v1::VERDICT_KIND_LOAD_ERROR);
  CHECK(left.stage() == v1::STAGE_PREPARE);

  const v1::Verdict crashed = fixture.VerdictOf(Candidate("os.kill(os.getpid(), signal.SIGSEGV)"));
  CHECK(crashed.kind() == v1::VERDICT_KIND_RUNTIME_ERROR);
  CHECK(crashed.evidence().signal() == SIGSEGV);

  CHECK(fixture.VerdictOf("def f(:\n").kind() == v1::VERDICT_KIND_UNPARSABLE);
  CHECK(fixture.VerdictOf("x = 1\n").kind() == v1::VERDICT_KIND_UNPARSABLE);

  const v1::Verdict raised = fixture.VerdictOf(Candidate("raise ValueError('no such luck')"));
  CHECK(raised.kind() == v1::VERDICT_KIND_RUNTIME_ERROR);
  CHECK(raised.evidence().error_text().find("no such luck") != std::string::npos);

  CHECK(fixture.VerdictOf(Candidate(kGood)).kind() == v1::VERDICT_KIND_VALID);
  CHECK(fixture.IsLockFree());
}

TEST_CASE("Supervisor: a would-be best is evaluated again, and the second word stands") {
  SupervisorFixture f;
  EvaluationRequest request = SupervisorFixture::Request(Candidate(kGood));
  const std::string slow = "        return torch.relu(self.linear(x))";
  const size_t at = request.task.source.find(slow);
  REQUIRE(at != std::string::npos);
  request.task.source.insert(at, "        for _ in range(200): x = x + 0\n");
  request.task.version = Sha256Hex(request.task.source);

  v1::LeaseResult result = f.Evaluate(request);
  INFO(result.ShortDebugString());
  REQUIRE(result.verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(result.verdict().unconfirmed().speedup() > 1.5);
  CHECK(result.verdict().measurement().speedup() > 1.5);
  CHECK(result.verdict().measurement().speedup() != result.verdict().unconfirmed().speedup());
  int measured = 0;
  for (const v1::LockTime& lock : result.times().locks())
    measured += lock.operation() == "measure" ? 1 : 0;
  CHECK(measured >= 2);

  request.best_speedup = 1e6;
  result = f.Evaluate(request);
  CHECK(result.verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(!result.verdict().has_unconfirmed());
}

TEST_CASE("Supervisor: a verdict holds the task's report and is as precise as the policy asks") {
  SupervisorFixture fixture;
  EvaluationRequest request =
      SupervisorFixture::Request(Candidate("return torch.relu(self.linear(x)).half().float()"));
  request.policy.set_precision_slack(4);
  const v1::Verdict coarse = fixture.Evaluate(request).verdict();
  INFO(coarse.ShortDebugString());
  CHECK(coarse.kind() == v1::VERDICT_KIND_VALID);
  CHECK(coarse.correctness().precision_class() == "fp16");
  const v1::TaskReport& report = coarse.task_report();
  CHECK(report.is_deterministic());
  CHECK(report.degenerate().empty());
  REQUIRE(report.inputs_size() == 1);
  CHECK(report.inputs(0).path() == "input[0]");
  CHECK(report.inputs(0).changed() > 0.5);
  CHECK(report.precisions_size() == 3);
  CHECK(report.output_bytes() == 4096);

  request.policy.set_precision("fp32");
  const v1::Verdict strict = fixture.Evaluate(request).verdict();
  CHECK(strict.kind() == v1::VERDICT_KIND_INCORRECT);
  CHECK_THAT(strict.reason(), testing::Contains("out: as coarse as fp16 (off by") &&
                                  testing::Contains("the policy asks for fp32"));
  // Once for a bench.
  CHECK(strict.task_report().reference_ms() == report.reference_ms());
  request.candidate_source = Candidate(kGood);
  CHECK(fixture.Evaluate(request).verdict().correctness().precision_class() == "exact");

  request.policy.set_atol(100);
  const v1::TaskReport wide = fixture.Evaluate(request).verdict().task_report();
  REQUIRE(wide.degenerate_size() >= 2);
  CHECK(wide.degenerate(0) == "an output that was computed once passes");
  CHECK(wide.degenerate(1) == "zeros pass");
}

TEST_CASE("Supervisor: limits end a candidate, not the worker") {
  SupervisorFixture fixture;
  EvaluationRequest slow = SupervisorFixture::Request(Candidate("time.sleep(3600)"));
  slow.policy.set_first_call_timeout_ms(1'000);
  const v1::LeaseResult slow_result = fixture.Evaluate(slow);
  INFO(slow_result.ShortDebugString());
  CHECK(slow_result.verdict().kind() == v1::VERDICT_KIND_TIMEOUT);

  EvaluationRequest import = SupervisorFixture::Request(Candidate(kGood, "time.sleep(3600)\n"));
  import.policy.set_load_timeout_ms(8'000);
  const v1::LeaseResult import_result = fixture.Evaluate(import);
  INFO(import_result.ShortDebugString());
  CHECK(import_result.verdict().kind() == v1::VERDICT_KIND_TIMEOUT);
  CHECK(import_result.verdict().stage() == v1::STAGE_PREPARE);

  const v1::Verdict greedy =
      fixture.VerdictOf(Candidate("keep = [bytearray(64 << 20) for _ in range(64)]; return keep"));
  CHECK(greedy.kind() == v1::VERDICT_KIND_OUT_OF_MEMORY);

  CHECK(fixture.VerdictOf(Candidate(kGood)).kind() == v1::VERDICT_KIND_VALID);
  CHECK(fixture.IsLockFree());
}

TEST_CASE("Supervisor: a killed judge is replaced and the evaluation ends validly") {
  SupervisorFixture fixture;
  fixture.kill_at = v1::STAGE_VERIFY;
  fixture.kill_word = "judge_main.py";
  const v1::Verdict verdict = fixture.VerdictOf(Candidate(kGood));
  CHECK(fixture.killed > 0);
  CHECK(verdict.kind() == v1::VERDICT_KIND_VALID);
  REQUIRE(verdict.evidence().earlier_attempts_size() == 1);
  CHECK(verdict.evidence().earlier_attempts(0).find("judge") != std::string::npos);
  CHECK(fixture.IsLockFree());

  // A judge that dies each time is a failure of ours, never a verdict.
  fixture.killed = 0;
  fixture.kills_max = 1000;
  fixture.kill_at = v1::STAGE_VERIFY;
  const v1::LeaseResult result = fixture.Evaluate(Candidate(kGood));
  INFO(result.ShortDebugString());
  REQUIRE(result.has_infra_failure());
  CHECK(result.infra_failure().is_retryable());
  CHECK(result.infra_failure().blame() == v1::BLAME_INFRASTRUCTURE);
  CHECK(fixture.IsLockFree());
}

TEST_CASE("Supervisor: killed runners end their evaluation only") {
  SupervisorFixture fixture;
  fixture.kill_at = v1::STAGE_MEASURE;
  fixture.kill_word = "runner_main.py";  // the candidate's, the reference's and warm ones
  const v1::LeaseResult result = fixture.Evaluate(Candidate(kGood));
  INFO(result.ShortDebugString());
  CHECK(fixture.killed >= 2);
  // Whichever death the judge saw first: both sides are tried again.
  CHECK(result.verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(fixture.IsLockFree());
  CHECK(fixture.VerdictOf(Candidate(kGood)).kind() == v1::VERDICT_KIND_VALID);
}

TEST_CASE("Supervisor: a broken task blames nobody's candidate") {
  SupervisorFixture fixture;
  EvaluationRequest request = SupervisorFixture::Request(Candidate(kGood));
  request.task.source =
      "import torch\nclass Model(torch.nn.Module):\n  pass\n"
      "def get_inputs():\n  raise ValueError('empty')\n"
      "def get_init_inputs():\n  return []\n";
  request.task.version = "broken";
  const v1::LeaseResult result = fixture.Evaluate(request);
  INFO(result.ShortDebugString());
  REQUIRE(result.has_infra_failure());
  CHECK_FALSE(result.infra_failure().is_retryable());
  CHECK(result.infra_failure().blame() == v1::BLAME_TASK);

  // A stopped evaluation returns soon and leaves nothing behind.
  fixture.kill_at = v1::STAGE_UNSPECIFIED;
  std::jthread stopper([&fixture] { fixture.stop.request_stop(); });
  const auto start = MonoNow();
  fixture.Evaluate(Candidate("time.sleep(3600)"));
  CHECK(MonoNow() - start < std::chrono::seconds(60));
  CHECK(fixture.IsLockFree());
  fixture.supervisor.reset();
  fixture.node.reset();
  CHECK(testing::Descendants(::getpid(), "_main.py").empty());
}

TEST_CASE("Supervisor: an extension asked for in the first call is built then") {
  SupervisorFixture fixture;
  // Without torch's headers, which take half a minute to compile.
  const v1::Verdict verdict = fixture.VerdictOf(Candidate(R"(
        if not hasattr(self, 'part'):
            from torch.utils.cpp_extension import load
            with open('/work/part.cpp', 'w') as file:
                file.write('#include <Python.h>\n'
                           'static PyModuleDef part = {PyModuleDef_HEAD_INIT, "late_part"};\n'
                           'PyMODINIT_FUNC PyInit_late_part() {\n'
                           '  return PyModule_Create(&part);\n'
                           '}\n')
            self.part = load('late_part', ['/work/part.cpp'])
        return torch.relu(self.linear(x)))"));
  INFO(verdict.ShortDebugString());
  REQUIRE(verdict.kind() == v1::VERDICT_KIND_VALID);
  REQUIRE(verdict.builds_size() == 1);
  CHECK(verdict.builds(0).late());
  CHECK(verdict.builds(0).build_ms() > 0);
}

TEST_CASE("Supervisor: a build in the background does not lock the evaluation out") {
  SupervisorFixture fixture;
  const v1::Verdict verdict = fixture.VerdictOf(Candidate(kGood, R"(
import threading
def build():
    from torch.utils.cpp_extension import load
    with open('/work/background.cpp', 'w') as file:
        file.write('#include <Python.h>\n'
                   'static PyModuleDef part = {PyModuleDef_HEAD_INIT, "background"};\n'
                   'PyMODINIT_FUNC PyInit_background() { return PyModule_Create(&part); }\n')
    load('background', ['/work/background.cpp'])
threading.Thread(target=build).start()
)"));
  INFO(verdict.ShortDebugString());
  CHECK(verdict.kind() == v1::VERDICT_KIND_VALID);
  CHECK(verdict.builds_size() == 1);
  CHECK(fixture.IsLockFree());
}

}  // namespace
}  // namespace pike::gpu
