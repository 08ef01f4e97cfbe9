#include "common/build/build_request.h"

#include <random>
#include <string>

#include <absl/strings/escaping.h>
#include <nlohmann/json.hpp>

#include "common/build/build_frame.h"
#include "tests/testing/catch.h"

namespace pike::build {
namespace {

BuildRequest Example() {
  BuildRequest request;
  request.name = "ext";
  request.with_cuda = true;
  request.sources = {{"main.cpp", "int main;"}, {"cuda.cu", std::string("\0\xff", 2)}};
  request.headers = {{"include0/tile.h", "#pragma once"}};
  request.cflags = {"-O3"};
  request.cuda_cflags = {"--use_fast_math"};
  request.ldflags = {"-lcublas"};
  request.include_paths = {"include0"};
  return request;
}

nlohmann::json ExampleFrame() {
  return nlohmann::json{
      {"type", "build"},    {"id", 7},
      {"name", "ext"},      {"kind", "library"},
      {"with_cuda", false}, {"sources", {{{"name", "main.cpp"}, {"base64", "aW50IHg7"}}}},
      {"cflags", {"-O2"}}};
}

TEST_CASE("BuildRequest: canonical bytes can be read back") {
  const BuildRequest request = Example();
  const absl::StatusOr<BuildRequest> parsed = ParseBuildRequest(SerializeBuildRequest(request));
  REQUIRE(parsed.ok());
  CHECK(*parsed == request);
}

TEST_CASE("BuildRequest: cut or damaged bytes are refused or stay in bounds") {
  const std::string bytes = SerializeBuildRequest(Example());
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(ParseBuildRequest(absl::string_view(bytes).substr(0, size)).ok());
  CHECK_FALSE(ParseBuildRequest(bytes + "x").ok());
  std::mt19937 random(1);  // NOLINT: the same damage in each run
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    const absl::StatusOr<BuildRequest> parsed = ParseBuildRequest(damaged);
    if (parsed.ok())
      CHECK(CheckBuildRequest(*parsed).ok());
  }
}

TEST_CASE("BuildRequest: names that could leave the work folder or reach a flag are refused") {
  for (const char* name : {"", "../x.cpp", "/etc/passwd", "a/../b.cpp", "-o", "a b.cpp", ".hidden",
                           "a//b.cpp", "x\n.cpp", "d/-x.cpp"}) {
    BuildRequest request = Example();
    request.sources[0].name = name;
    INFO(name);
    CHECK_FALSE(CheckBuildRequest(request).ok());
  }
  BuildRequest request = Example();
  request.name = "1ext";
  CHECK_FALSE(CheckBuildRequest(request).ok());
  request.name = "a-b";
  CHECK_FALSE(CheckBuildRequest(request).ok());
}

TEST_CASE("BuildRequest: bounds hold") {
  BuildRequest request = Example();
  request.sources[0].contents.assign(kBuildFileBytesMax + 1, 'x');
  CHECK_FALSE(CheckBuildRequest(request).ok());
  request = Example();
  request.sources.clear();
  CHECK_FALSE(CheckBuildRequest(request).ok());
  request = Example();
  request.sources.push_back(request.sources[0]);
  CHECK_FALSE(CheckBuildRequest(request).ok());
  request = Example();
  request.cflags.assign(kBuildFlagsMax + 1, "-O2");
  CHECK_FALSE(CheckBuildRequest(request).ok());
  request = Example();
  request.cflags = {std::string("-O2\0", 4)};
  CHECK_FALSE(CheckBuildRequest(request).ok());
}

TEST_CASE("BuildRequest: what could not be put on one command line is refused") {
  BuildRequest request = Example();
  request.cflags.assign(kBuildFlagsMax, std::string(kBuildFlagBytesMax / 2, 'x'));
  CHECK_FALSE(CheckBuildRequest(request).ok());
  std::string words;
  for (size_t i = 0; i < kBuildFlagBytesMax / 4; ++i)
    words += "a ";
  request.cflags.assign(4, words);
  CHECK_FALSE(CheckBuildRequest(request).ok());
  request.cflags = {words};
  CHECK(CheckBuildRequest(request).ok());
}

TEST_CASE("BuildRequest: files that could not be laid out are refused") {
  const auto is_good = [](std::vector<std::string> names) {
    BuildRequest request = Example();
    request.headers.clear();
    for (const std::string& name : names)
      request.headers.push_back({name, ""});
    return CheckBuildRequest(request).ok();
  };
  CHECK(is_good({"a/b.h", "a/c.h", "a.h", "out.h"}));
  CHECK_FALSE(is_good({"a", "a/b.h"}));
  CHECK_FALSE(is_good({"a/b/c/d.h", "a/b"}));
  CHECK_FALSE(is_good({"obj"}));
  CHECK_FALSE(is_good({"out/x.h"}));
}

TEST_CASE("BuildKey: every byte, flag, the name, the toolchain and the architecture count") {
  const std::string key = BuildKey(Example(), "toolchain", "sm_90a");
  CHECK(key == BuildKey(Example(), "toolchain", "sm_90a"));
  CHECK(key != BuildKey(Example(), "other", "sm_90a"));
  CHECK(key != BuildKey(Example(), "toolchain", "sm_80"));
  const auto changed = [&key](auto change) {
    BuildRequest request = Example();
    change(&request);
    return BuildKey(request, "toolchain", "sm_90a") != key;
  };
  CHECK(changed([](BuildRequest* r) { r->name = "ext2"; }));
  CHECK(changed([](BuildRequest* r) { r->sources[0].contents += " "; }));
  CHECK(changed([](BuildRequest* r) { r->headers.clear(); }));
  CHECK(changed([](BuildRequest* r) { r->cflags = {}; }));
  CHECK(changed([](BuildRequest* r) { std::swap(r->cflags, r->cuda_cflags); }));
  CHECK(changed([](BuildRequest* r) { r->kind = ArtifactKind::kExecutable; }));
}

TEST_CASE("BuildKey: code without CUDA is the same for every architecture") {
  BuildRequest request = Example();
  request.with_cuda = false;
  CHECK(BuildKey(request, "t", "cpu") == BuildKey(request, "t", "sm_90a"));
}

TEST_CASE("BuildFrame: a request of the hook is read") {
  const absl::StatusOr<BuildRequest> request = BuildRequestFromFrame(ExampleFrame());
  REQUIRE(request.ok());
  CHECK(request->name == "ext");
  CHECK(request->sources[0].contents == "int x;");
  CHECK(request->cflags == std::vector<std::string>{"-O2"});
  CHECK(BuildFrameId(ExampleFrame()) == 7);
}

TEST_CASE("BuildFrame: fields of a wrong type are refused, not believed") {
  for (const char* field : {"name", "kind", "sources", "cflags"}) {
    for (const nlohmann::json& value :
         {nlohmann::json(3), nlohmann::json(nullptr), nlohmann::json::array({1}),
          nlohmann::json::object({{"a", 1}})}) {
      nlohmann::json frame = ExampleFrame();
      frame[field] = value;
      INFO(frame.dump());
      CHECK_FALSE(BuildRequestFromFrame(frame).ok());
    }
  }
  nlohmann::json frame = ExampleFrame();
  frame["sources"][0]["base64"] = "***";
  CHECK_FALSE(BuildRequestFromFrame(frame).ok());
  CHECK_FALSE(BuildRequestFromFrame(nlohmann::json(1)).ok());
  CHECK(BuildFrameId(nlohmann::json{{"id", "x"}}) == 0);
}

TEST_CASE("BuildFrame: the reply to a failed build carries its first error") {
  auto failure = std::make_shared<BuildFailure>();
  failure->tool = "g++";
  failure->first_error = "main.cpp:3:1: error: no\n";
  failure->stderr_text = {std::string("\xff") + std::string(9000, 'x'), "", 9001};
  BuildOutcome outcome;
  outcome.failure = failure;
  const nlohmann::json reply = BuildReplyFrame(9, outcome);
  CHECK(reply["id"] == 9);
  CHECK(reply["ok"] == false);
  const std::string message = reply["message"];
  CHECK(message.find("main.cpp:3:1: error: no") != std::string::npos);
  CHECK(message.size() < 5000);
  CHECK_NOTHROW(reply.dump());
}

}  // namespace
}  // namespace pike::build
