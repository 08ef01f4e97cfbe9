#include "common/service/runtime_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"
#include "common/service/grpc_status.h"
#include "tests/testing/catch.h"

namespace pike::service {
namespace {

TEST_CASE("RuntimeDir: a missing folder is made for its owner only") {
  const auto folder = TempFolder::Create("pike-runtime");
  REQUIRE(folder.ok());
  const auto opened = OpenRuntimeDir(folder->path() + "/a/b");
  REQUIRE(opened.ok());
  struct stat facts = {};
  REQUIRE(::stat(opened->c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
}

TEST_CASE("RuntimeDir: a folder that others can enter is refused with the fix") {
  const auto folder = TempFolder::Create("pike-runtime");
  REQUIRE(folder.ok());
  const std::string path = folder->path() + "/open";
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  const auto opened = OpenRuntimeDir(path);
  REQUIRE(opened.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(opened.status().message()).find("chmod 700") != std::string::npos);
}

TEST_CASE("RuntimeDir: a link to a folder is refused") {
  const auto folder = TempFolder::Create("pike-runtime");
  REQUIRE(folder.ok());
  REQUIRE(::symlink("/tmp", (folder->path() + "/link").c_str()) == 0);
  CHECK_FALSE(OpenRuntimeDir(folder->path() + "/link").ok());
}

TEST_CASE("RuntimeDir: a client finds the endpoint file, then says how to start a service") {
  const auto folder = TempFolder::Create("pike-runtime");
  REQUIRE(folder.ok());
  const auto none = FindService("", folder->path());
  CHECK(none.status().code() == absl::StatusCode::kNotFound);
  REQUIRE(WriteEndpoint(folder->path(), "unix:/x/pike.sock").ok());
  CHECK(*FindService("", folder->path()) == "unix:/x/pike.sock");
  CHECK(*FindService("127.0.0.1:1", folder->path()) == "127.0.0.1:1");
}

TEST_CASE("RuntimeDir: targets to listen on are sockets or loopback") {
  for (const char* good : {"unix:/run/pike.sock", "127.0.0.1:0", "localhost:80", "[::1]:65535"})
    CHECK(CheckListenTarget(good).ok());
  for (const char* bad : {"", "unix:", "unix:relative", "0.0.0.0:80", "192.168.0.1:80", "127.0.0.1",
                          "127.0.0.1:x", "127.0.0.1:65536", ":80"})
    CHECK_FALSE(CheckListenTarget(bad).ok());
  CHECK_FALSE(CheckListenTarget("unix:/" + std::string(107, 'x')).ok());
}

TEST_CASE("GrpcStatus: codes survive, messages are cut and printable") {
  const absl::Status status = absl::NotFoundError(std::string("no\x01 ") + std::string(5000, 'x'));
  const grpc::Status sent = ToGrpcStatus(status);
  CHECK(sent.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(sent.error_message().size() <= 1024);
  CHECK(sent.error_message().find('\x01') == std::string::npos);
  CHECK(FromGrpcStatus(sent).code() == absl::StatusCode::kNotFound);
  CHECK(ToGrpcStatus(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace pike::service
