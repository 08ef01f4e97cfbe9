#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/unique_fd.h"
#include "common/sandbox/host_quiet.h"
#include "common/sandbox/sandbox.h"
#include "tests/integration/sandbox_fixture.h"
#include "tests/testing/catch.h"

namespace pike::sandbox {
namespace {

// What a sandbox writes to, for ever, from two processes one of which has left its session.
class Ticking {
 public:
  explicit Ticking(SandboxFixture* fixture) {
    int ends[2] = {-1, -1};
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    reader_ = UniqueFd(ends[0]);
    UniqueFd writer(ends[1]);
    REQUIRE(fcntl(writer.get(), F_SETFL, 0) == 0);
    SandboxSpec spec = SandboxFixture::Shell(
        "setsid sh -c 'while :; do echo a >&3; done' & while :; do echo b >&3; done");
    spec.fds = {{.host_fd = writer.get(), .inside_fd = 3}};
    sandbox = fixture->Start(spec);
  }

  void Drain() const {
    char buffer[4096];
    while (read(reader_.get(), buffer, sizeof buffer) > 0) {
    }
  }
  bool IsQuietFor(int ms) const {
    pollfd polled{.fd = reader_.get(), .events = POLLIN, .revents = 0};
    return poll(&polled, 1, ms) == 0;
  }

  std::unique_ptr<Sandbox> sandbox;

 private:
  UniqueFd reader_;
};

void CheckFreezes(const HostOptions& options) {
  SandboxFixture f(options);
  const Ticking ticking(&f);
  CHECK_FALSE(ticking.IsQuietFor(20'000));
  REQUIRE(ticking.sandbox->StartFreezing().ok());
  REQUIRE(ticking.sandbox->WaitFrozen(Soon()).ok());
  ticking.Drain();
  CHECK(ticking.IsQuietFor(200));
  ticking.sandbox->Thaw();
  CHECK_FALSE(ticking.IsQuietFor(20'000));

  // Frozen ones die like others.
  REQUIRE(ticking.sandbox->StartFreezing().ok());
  REQUIRE(ticking.sandbox->WaitFrozen(Soon()).ok());
  CHECK(ticking.sandbox->Kill().is_killed);
  CHECK(ticking.sandbox->StartFreezing().ok());
  CHECK(ticking.sandbox->WaitFrozen(MonoNow()).ok());
}

TEST_CASE("Sandbox: a frozen tree stands still, goes on, and can be killed") {
  SECTION("by what this machine has") {
    CheckFreezes({});
  }
  SECTION("by signals") {
    CheckFreezes({.is_without_cgroups = true});
  }
}

TEST_CASE("Sandbox: another process's timing makes all of a host's stand still") {
  SandboxFixture f;
  const TempFolder folder = TempFolder::Create("pike-quiet").value();
  absl::StatusOr<std::unique_ptr<QuietListener>> listener =
      QuietListener::Start(folder.path(), "test", f.host.get());
  REQUIRE(listener.ok());
  const Ticking ticking(&f);
  CHECK_FALSE(ticking.IsQuietFor(20'000));
  {
    const HostQuiet quiet(folder.path(), Soon());
    REQUIRE(quiet.listeners() == 1);
    REQUIRE(quiet.are_still());
    ticking.Drain();
    CHECK(ticking.IsQuietFor(200));
    // A second one keeps them still when the first is gone; one that starts meanwhile waits.
    auto second = std::make_unique<HostQuiet>(folder.path(), Soon());
    CHECK(second->are_still());
    const Ticking newcomer(&f);
    newcomer.Drain();
    CHECK(newcomer.IsQuietFor(200));
    second.reset();
    CHECK(ticking.IsQuietFor(100));
  }
  CHECK_FALSE(ticking.IsQuietFor(20'000));
  listener->reset();
  CHECK(HostQuiet(folder.path(), Soon()).listeners() == 0);
}

TEST_CASE("Sandbox: the socket of a process that was killed is no listener") {
  const TempFolder folder = TempFolder::Create("pike-quiet").value();
  REQUIRE(mkdir((folder.path() + "/quiet").c_str(), 0700) == 0);
  const std::string path = folder.path() + "/quiet/gone.sock";
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  socket.Reset();
  const HostQuiet quiet(folder.path(), Soon());
  CHECK(quiet.listeners() == 0);
  CHECK(quiet.are_still());
  CHECK(access(path.c_str(), F_OK) != 0);
}

TEST_CASE("Sandbox: its threads stay on the cores they are given") {
  SandboxFixture f;
  int ends[2] = {-1, -1};
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  SandboxSpec spec = SandboxFixture::Shell("echo a >&3; exec sleep 1000 3>&-");
  spec.fds = {{.host_fd = writer.get(), .inside_fd = 3}};
  const std::unique_ptr<Sandbox> sandbox = f.Start(spec);
  // All of its processes are there from now on.
  char word = 0;
  REQUIRE(read(reader.get(), &word, 1) == 1);
  const auto check_cores = [&sandbox](int count) {
    for (const pid_t pid : sandbox->Processes()) {
      cpu_set_t set;
      REQUIRE(sched_getaffinity(pid, sizeof set, &set) == 0);
      CHECK(CPU_COUNT(&set) == count);
      CHECK(CPU_ISSET(0, &set));
    }
  };
  sandbox->KeepOn({0, 1});
  check_cores(2);
  sandbox->KeepFirstThreadsOn(0);
  check_cores(1);
}

}  // namespace
}  // namespace pike::sandbox
