// Real sandboxes. Each test passes as root (real uids) and as an ordinary user (user namespace);
// what differs is asked of is_root().

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include "common/base/file.h"
#include "common/sandbox/cgroup.h"
#include "common/sandbox/frame_channel.h"
#include "common/sandbox/process_tree.h"
#include "common/sandbox/result_file.h"
#include "tests/integration/sandbox_fixture.h"

namespace pike::sandbox {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::string ProcField(pid_t pid, const std::string& name) {
  const absl::StatusOr<std::string> text =
      ReadFile(absl::StrCat("/proc/", pid, "/status"), 1 << 16);
  if (!text.ok())
    return "";
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::ConsumePrefix(&line, name + ":"))
      return std::string(absl::StripAsciiWhitespace(line));
  }
  return "";
}

// Cgroup folders of a process of ours, in any hierarchy.
int CgroupsLeftBy(pid_t owner) {
  const absl::StatusOr<std::string> mounts = ReadFile("/proc/self/mounts", kMiB);
  const absl::StatusOr<std::string> own = ReadFile("/proc/self/cgroup", kMiB);
  REQUIRE((mounts.ok() && own.ok()));
  int count = 0;
  for (const char* controller : {"memory", "pids"}) {
    for (const CgroupParent& parent : CgroupParents(controller, *mounts, *own)) {
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(parent.folder, error)) {
        if (absl::StrContains(entry.path().string(), absl::StrCat("pike-sandboxes-", owner, "-")))
          ++count;
      }
    }
  }
  return count;
}

}  // namespace

TEST_CASE("Sandbox: runs a program and reports its exit status and output") {
  SandboxFixture f;
  const Exit exit = f.Run(f.Shell("echo out; echo err >&2; exit 3"));
  CHECK(exit.status == 3);
  CHECK(exit.signal == 0);
  CHECK_FALSE(exit.is_success());
  CHECK(f.out == "out\n");
  CHECK(f.err == "err\n");
  CHECK(exit.Text() == "exit status 3");
  CHECK(f.Run(f.Shell("true")).is_success());
}

TEST_CASE("Sandbox: a signal is reported as one") {
  SandboxFixture f;
  CHECK(f.Run(f.Shell("kill -SEGV $$")).signal == SIGSEGV);
}

TEST_CASE("Sandbox: a program that is not there shows as status 127") {
  SandboxFixture f;
  CHECK(f.Run({.name = "test", .argv = {"/no/such/program"}}).status == 127);
  CHECK(absl::StrContains(f.err, "/no/such/program"));
}

TEST_CASE("Sandbox: a bad spec or a missing bind fails the start, and says why") {
  SandboxFixture f;
  SandboxSpec spec = f.Shell("true");
  spec.working_folder = "relative";
  spec.fds = {{.host_fd = 0, .inside_fd = 2}};
  const absl::Status bad = f.host->Start(spec).status();
  CHECK(absl::IsInvalidArgument(bad));
  CHECK(absl::StrContains(bad.message(), "working folder"));
  CHECK(absl::StrContains(bad.message(), "descriptor number 2"));
  SandboxSpec missing = f.Shell("true");
  missing.read_only_binds = {{.host_path = "/no/such", .inside_path = "/x"}};
  const absl::Status failed = f.host->Start(missing).status();
  CHECK(absl::StrContains(failed.message(), "/no/such"));
}

TEST_CASE("Sandbox: sees neither a network nor the host's files") {
  const absl::StatusOr<TempFolder> host_folder = TempFolder::Create("pike-sandbox-test");
  REQUIRE(host_folder.ok());
  SandboxFixture f;
  f.Run(f.Shell(absl::StrCat(
      "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '; ls -A /root /home /etc/shadow "
      "/etc/ssl ",
      host_folder->path(), " 2>/dev/null; ls -A /tmp; hostname; ls /")));
  INFO(f.err);
  const std::vector<std::string> lines = absl::StrSplit(f.out, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() > 2);
  CHECK(lines[0] == "lo");
  CHECK(lines[1] == "pike");
  CHECK_FALSE(absl::StrContains(f.out, "root"));
  CHECK_FALSE(absl::StrContains(f.out, "home"));
  CHECK(f.Run(f.Python("import socket; socket.create_connection(('127.0.0.1', 22), 1)")).status ==
        1);
}

TEST_CASE("Sandbox: runs under a uid that is not root outside, without capabilities") {
  SandboxFixture f;
  auto pair = FrameChannel::Pair();
  REQUIRE(pair.ok());
  SandboxSpec spec = f.Shell("printf '\\0\\0\\0\\0' >&3; read -r line <&3; true");
  spec.fds = {{.host_fd = pair->second.get(), .inside_fd = 3}};
  const std::unique_ptr<Sandbox> sandbox = f.Start(spec);
  pair->second.Reset();
  REQUIRE(pair->first.Receive(Soon()).ok());
  const std::vector<pid_t> tree = ProcessTree(sandbox->init_pid());
  REQUIRE(tree.size() == 2);
  const std::string uid = absl::StrCat(sandbox->outside_uid());
  CHECK(ProcField(tree[1], "Uid") == absl::StrCat(uid, "\t", uid, "\t", uid, "\t", uid));
  CHECK(sandbox->outside_uid() == (f.is_root() ? 200000 : geteuid()));
  CHECK(sandbox->outside_uid() != 0);
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    CHECK(ProcField(tree[1], set) == "0000000000000000");
  CHECK(ProcField(tree[1], "NoNewPrivs") == "1");
  CHECK(f.host->capabilities().Has(f.is_root() ? "uid" : "userns"));
}

TEST_CASE("Sandbox: two at a time have different uids where we are root") {
  SandboxFixture f;
  const std::unique_ptr<Sandbox> first = f.Start(f.Shell("read -r line; true"));
  const std::unique_ptr<Sandbox> second = f.Start(f.Shell("true"));
  CHECK((first->outside_uid() != second->outside_uid()) == f.is_root());
  SandboxSpec spec = f.Shell("true");
  spec.uid_slot = 7;
  CHECK((f.Start(spec)->outside_uid() == 200007) == f.is_root());
}

TEST_CASE("Sandbox: has the given environment and descriptors, and no others") {
  setenv("PIKE_TEST_SECRET", "leaked", 1);          // NOLINT(concurrency-mt-unsafe)
  const int leaky = open("/etc/passwd", O_RDONLY);  // not close-on-exec
  REQUIRE(leaky >= 0);
  SandboxFixture f;
  SandboxSpec spec = f.Python(
      "import os, sys\n"
      "print(sorted(n for n in os.environ if n not in ('LC_CTYPE', 'PWD')))\n"
      "print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])\n"
      "print(os.readlink('/proc/self/fd/0'), os.getcwd())");
  spec.environment = {{"FOO", "bar"}};
  CHECK(f.Run(spec).is_success());
  CHECK(f.out == "['FOO', 'HOME', 'PATH', 'TMPDIR']\n[0, 1, 2]\n/dev/null /tmp\n");
  close(leaky);
}

TEST_CASE("Sandbox: everything is read-only but its own sized folders") {
  SandboxFixture f;
  SandboxSpec spec = f.Shell(
      "for p in / /etc /usr /dev /proc /sys /work /tmp /dev/shm; do\n"
      "  (echo x > $p/probe) 2>/dev/null && echo $p; done; cat /work/candidate.py");
  spec.tmpfs = {{.inside_path = "/work", .size_bytes_max = kMiB, .mode = 0777}};
  spec.files = {{.inside_path = "/work/candidate.py", .bytes = "print(1)\n"}};
  CHECK(f.Run(spec).is_success());
  CHECK(f.out == "/work\n/tmp\n/dev/shm\nprint(1)\n");
}

TEST_CASE("Sandbox: binds are there, read-only or writable as asked") {
  const absl::StatusOr<TempFolder> folder = TempFolder::Create("pike-sandbox-test");
  REQUIRE(folder.ok());
  const std::string read_only = folder->path() + "/read";
  const std::string writable = folder->path() + "/write";
  REQUIRE(mkdir(read_only.c_str(), 0755) == 0);
  REQUIRE(mkdir(writable.c_str(), 0755) == 0);
  REQUIRE(WriteFileAtomic(read_only + "/file", "content").ok());
  SandboxFixture f;
  SandboxSpec spec = f.Shell(
      "cat /a/b/c/file; echo x > /a/b/c/new || echo refused; echo result > /a/w/new; "
      "stat -c %a /a /a/b");
  spec.read_only_binds = {{.host_path = read_only, .inside_path = "/a/b/c"}};
  spec.writable_binds = {{.host_path = writable, .inside_path = "/a/w"}};
  CHECK(f.Run(spec).is_success());
  CHECK(f.out == "contentrefused\n755\n755\n");
  CHECK(ReadFile(writable + "/new", 100).value_or("") == "result\n");
}

TEST_CASE("Sandbox: a fork bomb is bounded and ends with a kill") {
  SandboxFixture f;
  SandboxSpec spec = f.Python(
      "import os, signal\n"
      "n = 0\n"
      "try:\n"
      "  while n < 2000:\n"
      "    if os.fork() == 0: signal.pause()\n"
      "    n += 1\n"
      "except OSError: pass\n"
      "print(n, flush=True)");
  spec.limits.processes_max = 100;
  const Exit exit = f.Run(spec);
  CHECK(exit.is_success());
  INFO(f.out);
  CHECK(std::stoi(f.out) >= 90);
  CHECK(std::stoi(f.out) <= 100);
}

TEST_CASE("Sandbox: Kill ends the whole tree, new sessions included") {
  SandboxFixture f;
  auto pair = FrameChannel::Pair();
  REQUIRE(pair.ok());
  SandboxSpec spec = f.Shell(
      "setsid sh -c 'setsid sleep 1000 & printf \"\\0\\0\\0\\0\" >&3; exec sleep 1000' & "
      "trap '' TERM; sleep 1000");
  spec.fds = {{.host_fd = pair->second.get(), .inside_fd = 3}};
  const std::unique_ptr<Sandbox> sandbox = f.Start(spec);
  pair->second.Reset();
  REQUIRE(pair->first.Receive(Soon()).ok());
  const std::vector<pid_t> tree = ProcessTree(sandbox->init_pid());
  CHECK(tree.size() >= 4);
  const Exit exit = sandbox->Kill();
  CHECK(exit.is_killed);
  CHECK_FALSE(exit.is_timed_out);
  for (const pid_t pid : tree)
    CHECK(kill(pid, 0) == -1);
  CHECK(sandbox->Kill().is_killed);
  CHECK(sandbox->Wait(MonoNow())->is_killed);
  // Everybody who held the socket is gone.
  CHECK(absl::IsOutOfRange(pair->first.Receive(Soon()).status()));
}

TEST_CASE("Sandbox: a deadline kills, and a Wait without one left returns nothing") {
  SandboxFixture f;
  const std::unique_ptr<Sandbox> sandbox = f.Start(f.Shell("sleep 1000"));
  CHECK_FALSE(sandbox->Wait(MonoNow()).has_value());
  const Exit exit = sandbox->WaitOrKill(MonoNow() + std::chrono::milliseconds(50));
  CHECK(exit.is_timed_out);
  CHECK(exit.is_killed);
  CHECK(exit.Text() == "timed out");
}

TEST_CASE("Sandbox: Kill wakes up who waits") {
  SandboxFixture f;
  const std::unique_ptr<Sandbox> sandbox = f.Start(f.Shell("sleep 1000"));
  std::optional<Exit> seen;
  std::jthread waiter([&] { seen = sandbox->Wait(Soon()); });
  sandbox->Kill();
  waiter.join();
  REQUIRE(seen.has_value());
  CHECK(seen->is_killed);
}

TEST_CASE("Sandbox: who keeps stdout open after the program's end does not hold it up") {
  SandboxFixture f;
  const MonoTime start = MonoNow();
  const Exit exit = f.Run(f.Shell("setsid sleep 1000 & echo done; exit 4"));
  CHECK(exit.status == 4);
  CHECK(f.out == "done\n");
  CHECK(MonoNow() - start < kTestTimeout / 2);
}

TEST_CASE("Sandbox: a gigabyte of output is counted, not kept, and the end is seen") {
  SandboxFixture f;
  const std::unique_ptr<Sandbox> sandbox =
      f.Start(f.Python("import os\nprint('start', flush=True)\n"
                       "for _ in range(1024): os.write(1, b'x' * (1 << 20))\nprint('\\nend')"));
  CHECK(sandbox->WaitOrKill(Soon()).is_success());
  const CapturedOutput out = sandbox->Stdout();
  CHECK(out.bytes_total == 1024 * kMiB + 11);
  CHECK(out.head.size() == 32 << 10);
  CHECK(out.tail.size() == 32 << 10);
  CHECK(absl::StartsWith(out.head, "start\nxxx"));
  CHECK(absl::EndsWith(out.tail, "xxx\nend\n"));
  CHECK(absl::StrContains(out.Text(), "bytes left out"));
}

TEST_CASE("Sandbox: who takes too much memory is killed, and that is a fact of the exit") {
  const bool is_without_cgroups = GENERATE(false, true);
  SandboxFixture f(HostOptions{.is_without_cgroups = is_without_cgroups});
  INFO(is_without_cgroups);
  if (is_without_cgroups)
    CHECK(f.host->capabilities().Has("rss-watchdog"));
  SandboxSpec spec = f.Python(
      "import os, signal\n"
      "if os.fork() == 0:\n"
      "  keep = []\n"
      "  while True: keep.append(b'x' * (4 << 20))\n"
      "signal.pause()");
  spec.limits.memory_bytes_max = 200 * kMiB;
  const Exit exit = f.Run(spec);
  CHECK(exit.memory_limit_hit);
  CHECK(exit.signal == SIGKILL);
  CHECK_FALSE(exit.is_timed_out);
  REQUIRE(exit.memory_peak_bytes.has_value());
  CHECK(*exit.memory_peak_bytes > 150 * kMiB);
  CHECK(*exit.memory_peak_bytes < 2000 * kMiB);
  CHECK(exit.Text() == "memory limit");

  SandboxSpec modest = f.Python("keep = b'x' * (50 << 20)");
  modest.limits.memory_bytes_max = 200 * kMiB;
  CHECK(f.Run(modest).is_success());
}

TEST_CASE("Sandbox: writing a gigabyte fails inside and takes nothing of the host's disk") {
  SandboxFixture f;
  SandboxSpec spec = f.Python(
      "for folder in ('/tmp', '/dev/shm', '/work'):\n"
      "  total = 0\n"
      "  try:\n"
      "    with open(folder + '/big', 'wb', buffering=0) as f:\n"
      "      for _ in range(1024): total += f.write(b'x' * (1 << 20))\n"
      "  except OSError as e: print(folder, e.errno, total >> 20)");
  spec.tmp_bytes_max = 64 * kMiB;
  spec.dev_shm_bytes_max = 32 * kMiB;
  spec.tmpfs = {{.inside_path = "/work", .size_bytes_max = 16 * kMiB, .mode = 0777}};
  CHECK(f.Run(spec).is_success());
  CHECK(f.out == "/tmp 28 64\n/dev/shm 28 32\n/work 28 16\n");
}

TEST_CASE("Sandbox: a result leaves by a file in memory, bounded by the largest file") {
  SandboxFixture f;
  absl::StatusOr<ResultFile> result = ResultFile::Create();
  REQUIRE(result.ok());
  SandboxSpec spec = f.Shell("echo artifact >&5");
  spec.fds = {{.host_fd = result->fd(), .inside_fd = 5}};
  CHECK(f.Run(spec).is_success());
  CHECK(result->Read(100).value_or("") == "artifact\n");
  CHECK(absl::IsResourceExhausted(result->Read(3).status()));

  absl::StatusOr<ResultFile> large = ResultFile::Create();
  REQUIRE(large.ok());
  spec = f.Shell("head -c 100000000 /dev/zero >&5");
  spec.fds = {{.host_fd = large->fd(), .inside_fd = 5}};
  spec.limits.file_bytes_max = kMiB;
  CHECK_FALSE(f.Run(spec).is_success());
  CHECK(large->Read(2 * kMiB).value_or("").size() == static_cast<size_t>(kMiB));
}

TEST_CASE("Sandbox: kill -9 of the process that owns it ends the whole tree") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t owner = fork();
  if (owner == 0) {
    close(ends[0]);
    auto host = SandboxHost::Create({});
    SandboxSpec spec = SandboxFixture::Shell(
        "setsid sh -c 'setsid sleep 1000 & echo x >&3; sleep 1000' & sleep 1000");
    spec.fds = {{.host_fd = ends[1], .inside_fd = 3}};
    auto sandbox = host.ok() ? (*host)->Start(spec) : host.status();
    close(ends[1]);
    if (!sandbox.ok())
      _exit(1);
    pause();
  }
  close(ends[1]);
  char byte = 0;
  REQUIRE(read(ends[0], &byte, 1) == 1);
  REQUIRE(kill(owner, SIGKILL) == 0);
  REQUIRE(waitpid(owner, nullptr, 0) == owner);
  // End of file: no process of the tree is left that could hold the pipe.
  pollfd polled{.fd = ends[0], .events = POLLIN, .revents = 0};
  REQUIRE(poll(&polled, 1, 20000) == 1);
  while (read(ends[0], &byte, 1) > 0) {
  }
  close(ends[0]);
  // Its successor removes the cgroups that it left, if it had any.
  SandboxFixture successor;
  CHECK(CgroupsLeftBy(owner) == 0);
}

TEST_CASE("Sandbox: PyTorch works inside, with this machine's vector units") {
  const char* python = std::getenv("PIKE_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(python != nullptr);
  const std::string prefix = std::filesystem::path(python).parent_path().parent_path();
  const std::string script =
      "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()); "
      "x = torch.randn(256, 256); print(torch.nn.functional.linear(x, x).shape)";
  SandboxFixture f;
  SandboxSpec spec{.name = "torch", .argv = {python, "-c", script}};
  if (!absl::StartsWith(prefix, "/usr"))
    spec.read_only_binds = {{.host_path = prefix, .inside_path = prefix}};
  spec.limits.memory_bytes_max = 2048 * kMiB;
  const Exit exit = f.Run(spec);
  INFO(f.err);
  CHECK(exit.is_success());
  absl::StatusOr<std::string> cpu = ReadFile("/proc/cpuinfo", kMiB);
  REQUIRE(cpu.ok());
  if (absl::StrContains(*cpu, " avx2"))
    CHECK(absl::StrContains(f.out, "AVX"));
  CHECK(absl::StrContains(f.out, "torch.Size([256, 256])"));
  CHECK_FALSE(absl::StrContains(f.err, "cpuinfo"));
}

TEST_CASE("SandboxHost: many threads start and end sandboxes at the same time") {
  SandboxFixture f;
  std::vector<std::jthread> threads;
  std::vector<int> successes(4, 0);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&f, &successes, i] {
      for (int n = 0; n < 3; ++n) {
        auto sandbox = f.host->Start(SandboxFixture::Shell("true"));
        if (sandbox.ok() && (*sandbox)->WaitOrKill(Soon()).is_success())
          ++successes[static_cast<size_t>(i)];
      }
    });
  }
  threads.clear();
  CHECK(successes == std::vector<int>(4, 3));
}

TEST_CASE("Capabilities: a missing program is named with its fix") {
  const Capabilities found = DetectCapabilities({.bwrap = "no-such-bwrap"});
  CHECK_FALSE(found.is_usable());
  REQUIRE_FALSE(found.problems.empty());
  CHECK(absl::StrContains(found.problems[0].what, "bubblewrap"));
  CHECK(absl::StrContains(found.problems[0].fix, "apt-get install bubblewrap"));
  CHECK(DetectCapabilities({}).is_usable());
}

}  // namespace pike::sandbox
