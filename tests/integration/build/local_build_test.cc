// Real g++ and nvcc in real sandboxes. Only one build uses torch's headers (about 20 CPU-seconds);
// the others are small on purpose.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/build/broker.h"
#include "common/build/build_frame.h"
#include "common/build/local_builder.h"
#include "common/build/toolchain.h"
#include "common/sandbox/frame_channel.h"
#include "common/sandbox/sandbox_host.h"
#include "tests/testing/catch.h"

namespace pike::build {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPatience{500};

std::string Env(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): set before the start
  return value == nullptr ? "" : value;
}

// Counts what is really built.
class CountingBuilder : public Builder {
 public:
  explicit CountingBuilder(Builder* inner) : inner_(inner) {}
  absl::StatusOr<BuildProduct> Build(const BuildJob& job, std::stop_token stop) override {
    ++builds;
    return inner_->Build(job, std::move(stop));
  }
  std::atomic<int> builds{0};

 private:
  Builder* const inner_;
};

ProbedToolchain Probe(const std::string& cache_dir) {
  ProbeOptions options;
  options.python = Env("PIKE_PYTHON");
  options.share_dir = Env("PIKE_SOURCE_DIR") + "/common";
  options.cache_dir = cache_dir;
  const absl::StatusOr<ProbedToolchain> probed = ProbeToolchain(options);
  INFO(probed.status().ToString());
  REQUIRE(probed.ok());
  return *probed;
}

LocalBuilderOptions Options(const ProbedToolchain& toolchain) {
  LocalBuilderOptions options;
  options.toolchain = toolchain;
  options.nice = 0;  // a test has nothing to make way for
  return options;
}

struct Fixture {
  TempFolder folder = TempFolder::Create("local-build").value();
  ProbedToolchain toolchain = Probe(folder.path());
  std::unique_ptr<sandbox::SandboxHost> host = sandbox::SandboxHost::Create({}).value();
  LocalBuilder local{Options(toolchain), host.get()};
  CountingBuilder builder{&local};
  MemoryArtifactStore store;
  std::unique_ptr<Broker> broker = NewBroker();

  std::unique_ptr<Broker> NewBroker() {
    BrokerOptions options;
    options.cache_dir = folder.path() + "/artifacts";
    options.toolchain_digest = toolchain.toolchain.Digest();
    options.slots = 1;
    return Broker::Create(options, &store, &builder).value();
  }

  BuildCall Call() const {
    BuildCall call;
    call.arch = "cpu";
    call.deadline = MonoNow() + kPatience;
    call.build_timeout = kPatience;
    return call;
  }

  absl::StatusOr<BuildOutcome> Build(const std::string& source,
                                     std::vector<std::string> cflags = {}) {
    BuildRequest request;
    request.name = "ext";
    request.sources = {{"main.cpp", source}};
    request.cflags = std::move(cflags);
    return broker->Build(request, Call());
  }
};

// What would let a sandbox build by itself: the compiler's parts and CUDA toolkits, the one from
// PyPI included. Folders of the host.
std::vector<std::string> ToolFolders(const ToolchainPaths& paths) {
  std::vector<std::string> folders = {"/usr/lib/gcc", "/usr/lib/nvidia-cuda-toolkit", "/usr/local"};
  for (const std::string& packages : paths.site_packages) {
    for (const char* part : {"bin", "nvvm"})
      folders.push_back(absl::StrCat(packages, "/nvidia/cu13/", part));
  }
  std::erase_if(folders,
                [](const std::string& folder) { return !std::filesystem::is_directory(folder); });
  return folders;
}

// A sandbox that runs `script` at `path` through the hook, and what it reported. Where
// `is_without_tools`, PATH is empty and neither the compiler's parts nor a CUDA toolkit are there;
// the driver makes sure.
json RunHooked(Fixture* fixture, const std::string& path, const std::string& script,
               bool is_without_tools) {
  const std::string source_dir = Env("PIKE_SOURCE_DIR");
  std::pair<sandbox::FrameChannel, UniqueFd> ends = sandbox::FrameChannel::Pair().value();
  sandbox::SandboxSpec spec;
  spec.name = "hooked";
  spec.argv = {fixture->toolchain.paths.python, "-s", "-P", "/pike/driver.py", path};
  spec.environment = {{"PIKE_FRAME_FD", "3"}, {"OMP_NUM_THREADS", "1"}};
  spec.read_only_binds = {{source_dir + "/common/inside", "/pike/inside"}};
  for (const std::string& dir : ToolchainFolders(fixture->toolchain.paths, false))
    spec.read_only_binds.push_back({dir, dir});
  if (is_without_tools) {
    const std::string empty = fixture->folder.path() + "/empty";
    std::filesystem::create_directories(empty);
    spec.environment["PATH"] = "";
    spec.environment["IS_WITHOUT_TOOLS"] = "1";
    for (const std::string& hidden : ToolFolders(fixture->toolchain.paths))
      spec.read_only_binds.push_back({empty, hidden});
  }
  spec.files = {{"/pike/driver.py",
                 ReadFile(source_dir + "/tests/integration/build/hook_driver.py", 1 << 20).value()},
                {path, script}};
  spec.fds = {{ends.second.get(), 3}};
  const std::unique_ptr<sandbox::Sandbox> sandbox = fixture->host->Start(spec).value();
  ends.second.Reset();
  while (true) {
    const absl::StatusOr<sandbox::Frame> frame = ends.first.Receive(MonoNow() + kPatience);
    INFO(frame.status().ToString() << sandbox->Stderr().Text());
    REQUIRE(frame.ok());
    json object = json::parse(frame->bytes);
    if (object["type"] != "build") {
      INFO(object.dump());
      const bool is_done = object["type"] == "done";
      REQUIRE(is_done);
      return object;
    }
    const absl::StatusOr<BuildRequest> request = BuildRequestFromFrame(object);
    INFO(request.status().ToString());
    REQUIRE(request.ok());
    const absl::StatusOr<BuildOutcome> outcome = fixture->broker->Build(*request, fixture->Call());
    INFO(outcome.status().ToString());
    REQUIRE(outcome.ok());
    const json reply = BuildReplyFrame(BuildFrameId(object), *outcome);
    std::vector<int> fds;
    UniqueFd sealed;
    if (outcome->artifact != nullptr) {
      sealed = outcome->artifact->OpenSealed().value();
      fds.push_back(sealed.get());
    }
    REQUIRE(ends.first.Send(reply.dump(), fds, MonoNow() + kPatience).ok());
  }
}

constexpr char kTorchExtension[] = R"(
import torch
from torch.utils.cpp_extension import load_inline
ext = load_inline(name="twice_ext", functions=["twice"],
                  cpp_sources="torch::Tensor twice(torch::Tensor x) { return x * 2; }")
RESULT = ext.twice(torch.ones(3)).tolist()
)";

TEST_CASE("load_inline: built once, then loaded and called where there is no toolchain") {
  Fixture fixture;
  const json first = RunHooked(&fixture, "/tmp/one/candidate.py", kTorchExtension, false);
  INFO(first.dump());
  CHECK(first["result"] == json({2.0, 2.0, 2.0}));
  CHECK(fixture.builder.builds == 1);
  const json second = RunHooked(&fixture, "/tmp/elsewhere/b.py", kTorchExtension, true);
  INFO(second.dump());
  CHECK(second["result"] == json({2.0, 2.0, 2.0}));
  CHECK(fixture.builder.builds == 1);
}

TEST_CASE("load_inline: a CUDA extension is built by nvcc without a GPU") {
  Fixture fixture;
  if (!fixture.toolchain.can_build_cuda()) {
    if (Env("PIKE_REQUIRE_NVCC") == "1")
      FAIL("no nvcc in CUDA_HOME, /usr/local/cuda or the Python's packages");
    WARN("no nvcc on this machine");
    return;
  }
  const json done = RunHooked(&fixture, "/tmp/candidate.py", R"(
import os
from torch.utils.cpp_extension import load_inline
try:
    load_inline(name="cuda_ext", no_implicit_headers=True, is_python_module=False,
                cpp_sources="int launch(); int here() { return launch(); }",
                cuda_sources="__global__ void kernel(float* x) { x[threadIdx.x] *= 2.f; }\n"
                             "int launch() { kernel<<<1, 32>>>(nullptr); return 0; }",
                build_directory="/tmp")
    RESULT = "loaded"
except OSError as error:  # libtorch_cuda may want a driver
    RESULT = str(error)
RESULT = os.path.getsize("/tmp/cuda_ext.so") > 1000
)",
                              true);
  INFO(done.dump());
  CHECK(done["result"] == true);
  CHECK(fixture.builder.builds == 1);
}

TEST_CASE("load: sources and their own headers reach the build, wherever they lie") {
  Fixture fixture;
  const json done = RunHooked(&fixture, "/tmp/candidate.py", R"(
import os
from torch.utils.cpp_extension import load
os.makedirs("/tmp/src/deep")
os.makedirs("/tmp/inc")
os.environ["TORCH_EXTENSIONS_DIR"] = "/nowhere/at/all"
open("/tmp/inc/number.h", "w").write('#pragma once\n#include "deeper.h"\n')
open("/tmp/inc/deeper.h", "w").write("#define NUMBER 42\n")
open("/tmp/src/deep/near.h", "w").write("#include <number.h>\n")
open("/tmp/src/deep/m.cpp", "w").write("#include" + ''' "near.h"
#include <Python.h>
static PyObject* number(PyObject*, PyObject*) { return PyLong_FromLong(NUMBER); }
static PyMethodDef methods[] = {{"number", number, METH_NOARGS, ""}, {}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "m", "", -1, methods};
#define INIT2(name) PyInit_##name
#define INIT(name) INIT2(name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
''')
module = load(name="plain_ext", sources=["/tmp/src/deep/m.cpp"], extra_include_paths=["/tmp/inc"])
RESULT = [module.number(), module.__spec__.name]
)",
                              true);
  INFO(done.dump());
  CHECK(done["result"] == json({42, "plain_ext"}));
}

TEST_CASE("load_inline: a failed build raises RuntimeError as stock does") {
  Fixture fixture;
  const json done = RunHooked(&fixture, "/tmp/candidate.py", R"(
from torch.utils.cpp_extension import load_inline
try:
    load_inline(name="bad_ext", cpp_sources="int f( {", no_implicit_headers=True)
except RuntimeError as error:
    RESULT = str(error)
)",
                              true);
  INFO(done.dump());
  const std::string message = done["result"];
  CHECK(message.rfind("Error building extension 'bad_ext': g++: main.cpp:1:", 0) == 0);
}

TEST_CASE("LocalBuilder: a syntax error names tool, status, file and line") {
  Fixture fixture;
  const absl::StatusOr<BuildOutcome> outcome = fixture.Build("int a;\nint f( { return 1; }\n");
  REQUIRE(outcome.ok());
  REQUIRE(outcome->failure != nullptr);
  CHECK(outcome->failure->kind == BuildFailureKind::kCompileError);
  CHECK(outcome->failure->tool == "g++");
  CHECK(outcome->failure->exit_status == 1);
  CHECK(outcome->failure->file == "main.cpp");
  CHECK(outcome->failure->line == 2);
  CHECK(outcome->failure->first_error.find("main.cpp:2:") == 0);
}

TEST_CASE("LocalBuilder: an endless compilation ends at its deadline and frees its slot") {
  Fixture fixture;
  BuildRequest request;
  request.name = "ext";
  request.sources = {{"main.cpp",
                      "constexpr long f() { long x = 0; for (long i = 0; i < 2000000000; ++i) x ^= "
                      "i; return x; }\n"
                      "constexpr long y = f();\n"}};
  request.cflags = {"-fconstexpr-loop-limit=2147483647 -fconstexpr-ops-limit=99999999999"};
  BuildCall call = fixture.Call();
  call.build_timeout = std::chrono::milliseconds(1500);
  const absl::StatusOr<BuildOutcome> outcome = fixture.broker->Build(request, call);
  REQUIRE(outcome.ok());
  REQUIRE(outcome->failure != nullptr);
  CHECK(outcome->failure->kind == BuildFailureKind::kTimeout);
  const absl::StatusOr<BuildOutcome> next = fixture.Build("int after;");
  REQUIRE(next.ok());
  CHECK(next->artifact != nullptr);
}

TEST_CASE("LocalBuilder: a compiler that eats memory is ended by its limit, not by ours") {
  Fixture fixture;
  LocalBuilderOptions options = Options(fixture.toolchain);
  options.memory_bytes_max = int64_t{400} << 20;
  LocalBuilder small(options, fixture.host.get());
  BuildJob job;
  job.request.name = "ext";
  job.request.sources = {{"main.cpp", "#include \"/dev/zero\"\n"}};
  job.arch = "cpu";
  job.deadline = MonoNow() + kPatience;
  const absl::StatusOr<BuildProduct> product = small.Build(job, {});
  INFO(product.status().ToString());
  REQUIRE(product.ok());
  REQUIRE(product->failure != nullptr);
  CHECK(product->failure->kind != BuildFailureKind::kTimeout);
}

TEST_CASE("LocalBuilder: whatever status a flag makes the compiler end with is its own") {
  Fixture fixture;
  const std::string status = GENERATE("126", "127", "137");
  const absl::StatusOr<BuildOutcome> outcome = fixture.Build(
      "int a;", {"-pass-exit-codes", "-wrapper", absl::StrCat("sh,-c,'exit ", status, "'")});
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  REQUIRE(outcome->failure != nullptr);
  CHECK(outcome->failure->kind == BuildFailureKind::kCompileError);
}

TEST_CASE("LocalBuilder: many sources with many headers are linked") {
  Fixture fixture;
  BuildRequest request;
  request.name = "ext";
  for (int i = 0; i < 22; ++i) {
    request.sources.push_back({absl::StrCat("s", i, ".cpp"), absl::StrCat("int a", i, ";")});
    request.headers.push_back({absl::StrCat("h", i, ".h"), ""});
  }
  const absl::StatusOr<BuildOutcome> outcome = fixture.broker->Build(request, fixture.Call());
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  CHECK(outcome->artifact != nullptr);
}

TEST_CASE("LocalBuilder: objects larger than allowed in sum are the candidate's failure") {
  Fixture fixture;
  LocalBuilderOptions options = Options(fixture.toolchain);
  options.object_bytes_max = size_t{3} << 20;
  LocalBuilder small(options, fixture.host.get());
  BuildJob job;
  job.request.name = "ext";
  for (const char* name : {"a", "b"})
    job.request.sources.push_back(
        {absl::StrCat(name, ".cpp"), absl::StrCat("char ", name, "[2000000] = {1};")});
  job.arch = "cpu";
  job.deadline = MonoNow() + kPatience;
  const absl::StatusOr<BuildProduct> product = small.Build(job, {});
  INFO(product.status().ToString());
  REQUIRE(product.ok());
  REQUIRE(product->failure != nullptr);
  CHECK(product->failure->kind == BuildFailureKind::kRefused);
}

TEST_CASE("LocalBuilder: identical builds in flight run the compiler once") {
  Fixture fixture;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 3; ++i)
      callers.emplace_back([&fixture] { CHECK(fixture.Build("int same;").ok()); });
  }
  CHECK(fixture.builder.builds == 1);
}

TEST_CASE("LocalBuilder: a build sees no file of ours and no file of another build") {
  Fixture fixture;
  const std::string secret = fixture.folder.path() + "/secret.h";
  REQUIRE(WriteFileAtomic(secret, "#define SECRET 1\n").ok());
  const absl::StatusOr<BuildOutcome> outcome =
      fixture.Build(absl::StrCat("#include \"", secret, "\"\n"));
  REQUIRE(outcome.ok());
  REQUIRE(outcome->failure != nullptr);
  CHECK(outcome->failure->first_error.find("No such file") != std::string::npos);
}

}  // namespace
}  // namespace pike::build
