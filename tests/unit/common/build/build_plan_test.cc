#include "common/build/build_plan.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <absl/strings/str_join.h>

#include "common/build/diagnostics.h"
#include "common/build/toolchain.h"
#include "tests/testing/catch.h"

namespace pike::build {
namespace {

ToolchainPaths Paths() {
  ToolchainPaths paths;
  paths.gxx = "/usr/bin/g++";
  paths.cuda_home = "/cuda";
  paths.torch_dir = "/torch";
  paths.python_include = "/py";
  return paths;
}

BuildRequest Request(bool with_cuda) {
  BuildRequest request;
  request.name = "ext";
  request.with_cuda = with_cuda;
  request.sources = {{"main.cpp", ""}};
  if (with_cuda)
    request.sources.push_back({"cuda.cu", ""});
  return request;
}

std::string Line(const BuildStep& step) {
  return absl::StrJoin(step.argv, " ");
}

TEST_CASE("BuildPlan: a C++ extension is compiled and linked as stock torch does it") {
  BuildRequest request = Request(false);
  request.cflags = {"-O3 -march=native"};
  request.ldflags = {"-lm"};
  const BuildPlan plan = MakeBuildPlan(request, Paths(), "cpu");
  REQUIRE(plan.steps.size() == 2);
  CHECK(Line(plan.steps[0]) ==
        "/usr/bin/g++ -DTORCH_EXTENSION_NAME=ext -DTORCH_API_INCLUDE_EXTENSION_H "
        "-isystem /torch/include -isystem /torch/include/torch/csrc/api/include -isystem /py "
        "-fPIC -std=c++17 -O3 -march=native -c main.cpp -o obj/0.main.cpp.o");
  CHECK(Line(plan.steps[1]) ==
        "/usr/bin/g++ obj/0.main.cpp.o -shared -lm -L/torch/lib -lc10 -ltorch_cpu -ltorch "
        "-ltorch_python -o out/artifact.so");
}

TEST_CASE("BuildPlan: a CUDA source goes to nvcc for the architecture of the lease") {
  const BuildPlan plan = MakeBuildPlan(Request(true), Paths(), "sm_90a");
  REQUIRE(plan.steps.size() == 3);
  CHECK(plan.steps[1].tool == "nvcc");
  CHECK(Line(plan.steps[1]) ==
        "/cuda/bin/nvcc -DTORCH_EXTENSION_NAME=ext -DTORCH_API_INCLUDE_EXTENSION_H "
        "-isystem /torch/include -isystem /torch/include/torch/csrc/api/include "
        "-isystem /cuda/include -isystem /py -D__CUDA_NO_HALF_OPERATORS__ "
        "-D__CUDA_NO_HALF_CONVERSIONS__ -D__CUDA_NO_BFLOAT16_CONVERSIONS__ "
        "-D__CUDA_NO_HALF2_OPERATORS__ --expt-relaxed-constexpr "
        "-gencode=arch=compute_90a,code=sm_90a --compiler-options -fPIC -std=c++17 "
        "-c cuda.cu -o obj/1.cuda.cu.o");
  CHECK(Line(plan.steps[2])
            .find("-lc10_cuda -ltorch_cpu -ltorch_cuda -ltorch -ltorch_python "
                  "-L/cuda/lib64 -lcudart") != std::string::npos);
}

TEST_CASE("BuildPlan: a compute capability is the architecture, with its specifics on demand") {
  BuildRequest request = Request(true);
  const auto line = [&request] { return Line(MakeBuildPlan(request, Paths(), "9.0").steps[1]); };
  CHECK(line().find("-gencode=arch=compute_90,code=sm_90 ") != std::string::npos);
  request.sources[1].contents = "asm volatile(\"wgmma.fence.sync.aligned;\");";
  CHECK(line().find("-gencode=arch=compute_90a,code=sm_90a ") != std::string::npos);
  const std::string older = Line(MakeBuildPlan(request, Paths(), "8.6").steps[1]);
  CHECK(older.find("-gencode=arch=compute_86,code=sm_86 ") != std::string::npos);
}

TEST_CASE("BuildPlan: the candidate's own architecture and standard win, as with stock torch") {
  BuildRequest request = Request(true);
  request.cuda_cflags = {"-gencode=arch=compute_80,code=sm_80", "-std=c++20"};
  const std::string line = Line(MakeBuildPlan(request, Paths(), "sm_90").steps[1]);
  CHECK(line.find("compute_90") == std::string::npos);
  CHECK(line.find("-std=c++17") == std::string::npos);
}

TEST_CASE("BuildPlan: without a GPU a CUDA source still gets an architecture") {
  CHECK(Line(MakeBuildPlan(Request(true), Paths(), "cpu").steps[1]).find("sm_90") !=
        std::string::npos);
  BuildRequest request = Request(true);
  request.sources[1].contents = "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");";
  CHECK(Line(MakeBuildPlan(request, Paths(), "cpu").steps[1]).find("sm_90a ") != std::string::npos);
}

TEST_CASE("BuildPlan: an executable has no module name and finds torch's libraries") {
  BuildRequest request = Request(false);
  request.kind = ArtifactKind::kExecutable;
  const BuildPlan plan = MakeBuildPlan(request, Paths(), "cpu");
  CHECK(Line(plan.steps[0]).find("TORCH_EXTENSION_NAME") == std::string::npos);
  CHECK(Line(plan.steps[1]).find("-Wl,-rpath,/torch/lib") != std::string::npos);
}

TEST_CASE("SplitShellWords: words as a shell splits them") {
  using Words = std::vector<std::string>;
  CHECK(SplitShellWords("") == Words{});
  CHECK(SplitShellWords("  -O3   -I a ") == Words{"-O3", "-I", "a"});
  CHECK(SplitShellWords("-DX='a b' \"c d\"e") == Words{"-DX=a b", "c de"});
  CHECK(SplitShellWords("-DS=\\\"x\\\"") == Words{"-DS=\"x\""});
  CHECK(SplitShellWords("''") == Words{""});
  CHECK(SplitShellWords("'open") == Words{"open"});
  CHECK(SplitShellWords("a\\") == Words{"a\\"});
}

TEST_CASE("Diagnostics: the first error of each tool is found with its place") {
  const std::vector<std::string> files = {"main.cpp", "cuda.cu"};
  const Diagnostic gcc = FindFirstError(
      "main.cpp: In function 'int f()':\nmain.cpp:3:10: warning: unused\n"
      "main.cpp:7:5: error: expected ';' before '}' token\nmain.cpp:9:1: error: later\n",
      files);
  CHECK(gcc.first_error == "main.cpp:7:5: error: expected ';' before '}' token");
  CHECK(gcc.file == "main.cpp");
  CHECK(gcc.line == 7);
  const Diagnostic nvcc = FindFirstError(
      "cuda.cu(12): warning #177-D: x\ncuda.cu(14): error: identifier \"y\" is undefined\n"
      "1 error detected in the compilation of \"cuda.cu\".\n",
      files);
  CHECK(nvcc.file == "cuda.cu");
  CHECK(nvcc.line == 14);
  const Diagnostic missing =
      FindFirstError("main.cpp:2:10: fatal error: nothing.h: No such file or directory\n", files);
  CHECK(missing.line == 2);
  const Diagnostic link = FindFirstError(
      "/usr/bin/ld: obj/0.main.cpp.o: in function `f':\nmain.cpp:(.text+0x5): undefined reference "
      "to `g()'\ncollect2: error: ld returned 1 exit status\n",
      files);
  CHECK(link.first_error.find("undefined reference") != std::string::npos);
  CHECK(link.line == 0);
}

TEST_CASE("Diagnostics: an error inside a header names the candidate's line that led there") {
  const Diagnostic found = FindFirstError(
      "In file included from /usr/include/c++/12/vector:64,\n                 from main.cpp:4:\n"
      "/usr/include/c++/12/bits/stl_vector.h:88:5: error: static assertion failed\n",
      {"main.cpp"});
  CHECK(found.first_error.find("static assertion failed") != std::string::npos);
  CHECK(found.file == "main.cpp");
  CHECK(found.line == 4);
}

TEST_CASE("Diagnostics: random bytes give one printable line or nothing") {
  std::mt19937 random(1);  // NOLINT: the same bytes in each run
  const std::vector<std::string> pieces = {"main.cpp",
                                           ":",
                                           "(",
                                           ")",
                                           "99999999999999999999",
                                           "error: ",
                                           "\n",
                                           "\xff",
                                           std::string(1, '\0'),
                                           ": error:",
                                           "ld: ",
                                           "7"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int count = static_cast<int>(random() % 40); count > 0; --count) {
      if (random() % 3 == 0)
        text.push_back(static_cast<char>(random()));
      else
        text += pieces[random() % pieces.size()];
    }
    const Diagnostic found = FindFirstError(text, {"main.cpp"});
    CHECK(std::all_of(found.first_error.begin(), found.first_error.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= 0x20; }));
    CHECK((found.file.empty() || found.file == "main.cpp"));
  }
}

TEST_CASE("Toolchain: the digests follow their fields") {
  Toolchain toolchain{"cpython-311", "2.11.0", "3.6", "13.0", "13.0.88", "12.2.0", "glibc-2.36"};
  const std::string digest = toolchain.Digest();
  const std::string runtime = toolchain.RuntimeDigest();
  toolchain.nvcc_version.clear();
  CHECK(toolchain.Digest() != digest);
  CHECK(toolchain.RuntimeDigest() == runtime);
  toolchain.torch_version = "2.12.0";
  CHECK(toolchain.RuntimeDigest() != runtime);
}

TEST_CASE("Toolchain: what the probe prints is checked") {
  CHECK(ParseProbe("{\"error\": \"no torch\"}").status().message() == "no torch");
  CHECK_FALSE(ParseProbe("[]").ok());
  CHECK_FALSE(ParseProbe("{").ok());
  CHECK_FALSE(ParseProbe("{\"python\": 3}").ok());
  const absl::StatusOr<ProbedToolchain> probed = ParseProbe(
      R"({"python_abi": "cpython-311", "torch_version": "2.11.0", "python": "/p", "gxx": "/g",
          "torch_dir": "/t", "site_packages": ["/s"], "cuda_dirs": []})");
  REQUIRE(probed.ok());
  CHECK(probed->can_build());
  CHECK_FALSE(probed->can_build_cuda());
}

}  // namespace
}  // namespace pike::build
