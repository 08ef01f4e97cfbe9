// The real binary over real gRPC against a scripted coordinator. Candidates avoid torch's headers,
// so a build takes a second.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "common/base/file.h"
#include "common/build/build_request.h"
#include "common/sandbox/spawner.h"
#include "tests/integration/compile_worker/scripted_coordinator.h"
#include "tests/testing/catch.h"

namespace pike::compile_worker {
namespace {

constexpr std::chrono::seconds kPatience{150};
constexpr std::chrono::seconds kCudaPatience{400};  // nvcc with torch's headers, on a busy machine
constexpr unsigned long kUidsPerWorker = 64;
constexpr char kEntry[] = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n";

std::string Env(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): set before the start
  return value == nullptr ? "" : value;
}

std::string Extension(const std::string& cpp, const std::string& flags = "") {
  return absl::StrCat("from torch.utils.cpp_extension import load_inline\n",
                      "load_inline(name='ext', no_implicit_headers=True, is_python_module=False, ",
                      "cpp_sources='''", cpp, "''', extra_cflags=['", flags, "'])\n");
}

std::string SlowExtension() {
  return Extension(
      "constexpr long f() { long x = 0; for (long i = 0; i < 2000000000; ++i) x ^= i; return x; }\n"
      "constexpr long y = f();",
      "-fconstexpr-loop-limit=2147483647 -fconstexpr-ops-limit=99999999999");
}

class Fixture {
 public:
  Fixture() : coordinator(Target()) { Start(); }

  void Start() {
    sandbox::ProcessSpec spec;
    spec.argv = {Env("PIKE_BIN_DIR") + "/pike-compile-worker",
                 "--service",
                 Target(),
                 "--python",
                 Env("PIKE_PYTHON"),
                 "--slots",
                 "2",
                 "--cache-dir",
                 folder_.path() + "/cache",
                 "--runtime-dir",
                 folder_.path(),
                 "--uid-base",
                 absl::StrCat(uid_base_)};
    worker = spawner_.Spawn(spec).value();
    REQUIRE(coordinator.WaitForHello(MonoNow() + kPatience));
  }

  // Processes on this host that have the uid of one of our worker's sandboxes.
  std::vector<std::string> SandboxProcesses() const {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      std::ifstream status(entry.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (!absl::StartsWith(line, "Uid:"))
          continue;
        const unsigned long uid = std::stoul(line.substr(5));
        if (uid >= uid_base_ && uid < uid_base_ + kUidsPerWorker)
          found.push_back(entry.path().filename());
      }
    }
    return found;
  }

  void Kill() {
    worker->Signal(SIGKILL);
    REQUIRE(worker->Wait(MonoNow() + kPatience).has_value());
  }

  // Sends a compile lease for a candidate.
  std::string Lease(const std::string& source, uint32_t compile_timeout_ms = 120'000,
                    uint32_t build_timeout_ms = 100'000, const std::string& arch = "cpu") {
    const std::string id = absl::StrCat("lease-", ++leases_);
    v1::CoordinatorMessage message;
    v1::Lease* lease = message.mutable_lease();
    lease->set_lease_id(id);
    lease->set_attempt(1);
    lease->set_deadline_ms(compile_timeout_ms + 100'000);
    lease->set_arch(arch);
    lease->mutable_compile()->set_candidate_sha256(coordinator.AddBlob(source));
    lease->mutable_compile()->mutable_policy()->set_compile_timeout_ms(compile_timeout_ms);
    lease->mutable_compile()->mutable_policy()->set_build_timeout_ms(build_timeout_ms);
    coordinator.Send(message);
    return id;
  }

  v1::LeaseResult Result(const std::string& lease_id, std::chrono::seconds patience = kPatience) {
    const std::optional<v1::LeaseResult> result =
        coordinator.WaitForResult(lease_id, MonoNow() + patience);
    REQUIRE(result.has_value());
    INFO(result->ShortDebugString());
    return *result;
  }

  v1::LeaseResult Compile(const std::string& source) { return Result(Lease(source)); }

 private:
  std::string Target() const { return absl::StrCat("unix:", folder_.path(), "/pike.sock"); }

  TempFolder folder_ = TempFolder::Create("compile-worker").value();
  sandbox::Spawner spawner_;
  int leases_ = 0;
  // Own to this test process, so that workers of other tests are not counted.
  const unsigned long uid_base_ =
      300'000 + static_cast<unsigned long>(::getpid() % 10'000) * kUidsPerWorker;

 public:
  ScriptedCoordinator coordinator;
  std::shared_ptr<sandbox::Child> worker;
};

TEST_CASE("compile worker: builds, reuses, and judges what is final") {
  Fixture fixture;

  const v1::LeaseResult plain = fixture.Compile(kEntry);
  INFO(plain.ShortDebugString());
  REQUIRE(plain.has_compiled());
  CHECK_FALSE(plain.compiled().inconclusive());
  CHECK(plain.compiled().builds_size() == 0);
  CHECK(plain.times().compile_ms() > 0);

  const v1::LeaseResult built = fixture.Compile(Extension("int f() { return 1; }") + kEntry);
  INFO(built.ShortDebugString());
  REQUIRE(built.has_compiled());
  REQUIRE(built.compiled().builds_size() == 1);
  const v1::BuildRecord& build = built.compiled().builds(0);
  CHECK(build.name() == "ext");
  CHECK(build.artifact_sha256().size() == 64);
  CHECK_FALSE(build.reused());
  CHECK(fixture.coordinator.artifacts() == 1);

  const v1::LeaseResult again =
      fixture.Compile(Extension("int f() { return 1; }") + kEntry + "# other bytes");
  REQUIRE(again.has_compiled());
  CHECK(again.compiled().builds(0).reused());
  CHECK(again.compiled().builds(0).artifact_sha256() == build.artifact_sha256());

  const v1::LeaseResult broken = fixture.Compile(Extension("int a;\nint f( {") + kEntry);
  INFO(broken.ShortDebugString());
  REQUIRE(broken.has_verdict());
  const v1::Verdict& verdict = broken.verdict();
  CHECK(verdict.kind() == v1::VERDICT_KIND_LOAD_ERROR);
  CHECK(verdict.stage() == v1::STAGE_COMPILE);
  CHECK(verdict.blame() == v1::BLAME_CANDIDATE);
  REQUIRE(verdict.builds_size() == 1);
  CHECK(verdict.builds(0).error().file() == "main.cpp");
  CHECK(verdict.builds(0).error().line() == 2);
  CHECK(verdict.builds(0).error().tool() == "g++");
  CHECK(verdict.evidence().error_text().find("Error building extension") != std::string::npos);

  CHECK(fixture.Compile("this is not Python").verdict().kind() == v1::VERDICT_KIND_UNPARSABLE);
  CHECK(fixture.Compile(std::string("x\0y", 3)).verdict().kind() == v1::VERDICT_KIND_UNPARSABLE);
  CHECK(fixture.Compile("raise ValueError()").verdict().kind() == v1::VERDICT_KIND_UNPARSABLE);
  CHECK(fixture.Compile("x=" + std::string(500'000, '-') + "1").verdict().kind() ==
        v1::VERDICT_KIND_UNPARSABLE);
}

TEST_CASE(
    "compile worker: a CUDA load_inline candidate is built by nvcc, on a machine without a GPU") {
  Fixture fixture;
  const std::string source = absl::StrCat(R"(
from torch.utils.cpp_extension import load_inline
load_inline(name='doubler', functions=['doubled'],
            cpp_sources='torch::Tensor doubled(torch::Tensor x);',
            cuda_sources=r'''
__global__ void doubled_kernel(const float* x, int count, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 2 * x[i];
}
torch::Tensor doubled(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int count = static_cast<int>(x.numel());
  doubled_kernel<<<(count + 255) / 256, 256>>>(x.data_ptr<float>(), count, out.data_ptr<float>());
  return out;
}
''')
)",
                                          kEntry);
  const v1::LeaseResult result =
      fixture.Result(fixture.Lease(source, 390'000, 380'000, "9.0"), kCudaPatience);
  INFO(result.ShortDebugString());
  REQUIRE(result.has_compiled());
  CHECK_FALSE(result.compiled().inconclusive());
  REQUIRE(result.compiled().builds_size() == 1);
  CHECK_FALSE(result.compiled().builds(0).has_error());
  CHECK(result.compiled().builds(0).artifact_sha256().size() == 64);
}

TEST_CASE("compile worker: a failed build that the candidate catches is no failure") {
  Fixture fixture;
  std::string source = "try:\n";
  for (const char* line : {"from torch.utils.cpp_extension import load_inline",
                           "load_inline(name='ext', no_implicit_headers=True, cpp_sources='}')"})
    absl::StrAppend(&source, "    ", line, "\n");
  absl::StrAppend(&source, "except RuntimeError:\n    pass\n", kEntry);
  const v1::LeaseResult result = fixture.Compile(source);
  INFO(result.ShortDebugString());
  REQUIRE(result.has_compiled());
  CHECK_FALSE(result.compiled().inconclusive());
  CHECK(result.compiled().builds(0).has_error());
}

TEST_CASE("compile worker: whatever else happens in an import is inconclusive, in time") {
  Fixture fixture;
  const auto check_inconclusive = [&fixture](const std::string& source, const char* note,
                                             uint32_t compile_timeout_ms = 20'000) {
    const v1::LeaseResult result = fixture.Result(fixture.Lease(source, compile_timeout_ms));
    INFO(result.ShortDebugString());
    REQUIRE(result.has_compiled());
    CHECK(result.compiled().inconclusive());
    CHECK(result.compiled().note().find(note) != std::string::npos);
  };
  const std::string class_after = absl::StrCat("\n", kEntry);
  check_inconclusive("raise RuntimeError('no GPU')" + class_after, "no GPU");
  check_inconclusive("import os; os._exit(0)" + class_after, "status 0");
  check_inconclusive("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)" + class_after,
                     "signal 11");
  check_inconclusive(
      "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nos._exit(3)" + class_after,
      "status 3");
  check_inconclusive("print('x' * (200 << 20)); raise ValueError('printed')" + class_after,
                     "printed");
  // Writes the harness's own frame.
  check_inconclusive(
      "import os, struct\n"
      "said = b'{\"type\":\"failed\",\"where\":\"harness\",\"text\":\"not my fault\"}'\n"
      "os.write(3, struct.pack('<I', len(said)) + said)\nwhile True: pass" +
          class_after,
      "not my fault");
  check_inconclusive("while True: pass" + class_after, "in time", 3'000);
}

TEST_CASE("compile worker: a cancelled lease ends its sandbox and frees its slot") {
  Fixture fixture;
  const std::string first = fixture.Lease("while True: pass\n" + std::string(kEntry));
  const std::string second = fixture.Lease("while True: pass\n" + std::string(kEntry) + "# 2");
  for (const std::string& id : {first, second}) {
    v1::CoordinatorMessage cancel;
    cancel.mutable_cancel_lease()->set_lease_id(id);
    cancel.mutable_cancel_lease()->set_attempt(1);
    fixture.coordinator.Send(cancel);
  }
  CHECK(fixture.Compile(kEntry).has_compiled());
}

TEST_CASE("compile worker: kill -9 in mid-build leaves nothing running and nothing locked") {
  Fixture fixture;
  const std::string slow = SlowExtension() + kEntry;
  fixture.Lease(slow);
  // The build runs once its compiler shows up among the sandboxes' processes.
  const auto is_compiling = [&fixture] {
    for (const std::string& pid : fixture.SandboxProcesses()) {
      if (absl::StartsWith(ReadFile("/proc/" + pid + "/comm", 64).value_or(""), "cc1plus"))
        return true;
    }
    return false;
  };
  while (::geteuid() == 0 && !is_compiling())
    REQUIRE_FALSE(fixture.worker->Wait(MonoNow() + std::chrono::milliseconds(50)).has_value());
  fixture.Kill();
  const MonoTime deadline = MonoNow() + kPatience;
  while (!fixture.SandboxProcesses().empty() && MonoNow() < deadline)
    ::sched_yield();
  CHECK(fixture.SandboxProcesses().empty());

  fixture.Start();
  const v1::LeaseResult result = fixture.Result(fixture.Lease(slow, 60'000, 2'000));
  INFO(result.ShortDebugString());
  REQUIRE(result.has_verdict());
  CHECK(result.verdict().kind() == v1::VERDICT_KIND_TIMEOUT);
  CHECK(fixture.Compile(Extension("int after;") + kEntry).has_compiled());
}

TEST_CASE("compile worker: a late build of a GPU worker is built and published") {
  Fixture fixture;
  build::BuildRequest request;
  request.name = "late";
  request.sources = {{"main.cpp", "int late;"}};
  v1::CoordinatorMessage message;
  v1::Lease* lease = message.mutable_lease();
  lease->set_lease_id("build-1");
  lease->set_attempt(1);
  lease->set_deadline_ms(120'000);
  lease->set_arch("cpu");
  lease->mutable_build()->set_request_sha256(
      fixture.coordinator.AddBlob(build::SerializeBuildRequest(request)));
  lease->mutable_build()->set_timeout_ms(100'000);
  fixture.coordinator.Send(message);
  const v1::LeaseResult result = fixture.Result("build-1");
  INFO(result.ShortDebugString());
  REQUIRE(result.has_build());
  CHECK(result.build().late());
  CHECK(result.build().artifact_sha256().size() == 64);
  CHECK(fixture.coordinator.artifacts() == 1);
}

TEST_CASE("compile worker: SIGTERM hands its leases back and ends") {
  Fixture fixture;
  const std::string id = fixture.Lease("while True: pass\n" + std::string(kEntry));
  fixture.worker->Signal(SIGTERM);
  const std::optional<sandbox::ProcessEnd> end = fixture.worker->Wait(MonoNow() + kPatience);
  REQUIRE(end.has_value());
  CHECK(WIFEXITED(end->wait_status));
  CHECK(WEXITSTATUS(end->wait_status) == 0);
}

}  // namespace
}  // namespace pike::compile_worker
