// What the layers of a sandbox refuse, tried from inside, and what they must leave alone.

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "common/base/file.h"
#include "common/sandbox/capabilities.h"
#include "common/sandbox/host_check.h"
#include "tests/integration/sandbox_fixture.h"

namespace pike::sandbox {
namespace {

// call(number, arguments...) gives the name of the error number, "done" for success.
constexpr char kCallPython[] = R"(
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *arguments):
    arguments = [ctypes.c_ulong(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *arguments)
    return 'done' if result >= 0 else errno.errorcode[ctypes.get_errno()]
page = ctypes.create_string_buffer(4096)
null = open('/dev/null').fileno()
)";

SandboxSpec Calls(const std::string& script) {
  return SandboxFixture::Python(absl::StrCat(kCallPython, script));
}

// PIKE_PYTHON, the interpreter with torch, in a sandbox.
SandboxSpec TorchSpec(const std::string& script) {
  const char* python = std::getenv("PIKE_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(python != nullptr);
  const std::string prefix = std::filesystem::path(python).parent_path().parent_path();
  SandboxSpec spec{.name = "torch", .argv = {python, "-c", script}};
  if (!absl::StartsWith(prefix, "/usr"))
    spec.read_only_binds = {{.host_path = prefix, .inside_path = prefix}};
  return spec;
}

}  // namespace

// Each of these would be answered differently (done, EINVAL, EFAULT, EBADF, ENOTTY) without the
// filter, even to a program without rights.
TEST_CASE("Sandbox filter: refused calls are refused in a real sandbox") {
  SandboxFixture f;
  const Exit exit = f.Run(Calls(absl::StrCat(
      "print('ptrace', call(", SYS_ptrace, ", 0, 0, 0, 0))\n", "print('vm_readv', call(",
      SYS_process_vm_readv, ", os.getpid(), 0, 0, 0, 0, 0))\n", "print('vm_writev', call(",
      SYS_process_vm_writev, ", os.getpid(), 0, 0, 0, 0, 0))\n", "print('getfd', call(",
      SYS_pidfd_getfd, ", os.pidfd_open(os.getpid()), 0, 0))\n", "print('keyctl', call(",
      SYS_keyctl, ", 0, -2, 1))\n", "print('add_key', call(", SYS_add_key,
      ", b'user', b'k', b'v', 1, -2))\n", "print('perf', call(", SYS_perf_event_open,
      ", 0, 0, -1, -1, 0))\n", "print('uffd', call(", SYS_userfaultfd, ", 1))\n",
      "print('unshare', call(", SYS_unshare, ", 0x10000000))\n", "print('setns', call(", SYS_setns,
      ", null, 0))\n", "print('clone', call(", SYS_clone, ", 0x10000000 | 17, 0, 0, 0, 0))\n",
      "print('kcmp', call(", SYS_kcmp, ", os.getpid(), os.getpid(), 0, 0, 1))\n",
      "print('ioctl', call(", SYS_ioctl, ", null, 0x5412, b'x'))\n", "print('ioctl', call(",
      SYS_ioctl, ", null, 0x5412 | 1 << 40, b'x'))\n", "print('clone3', call(", SYS_clone3,
      ", page, 0))\n", "print('io_uring', call(", SYS_io_uring_setup, ", 0, page))\n")));
  INFO(f.err);
  CHECK(exit.is_success());
  CHECK(f.out ==
        "ptrace EPERM\nvm_readv EPERM\nvm_writev EPERM\ngetfd EPERM\nkeyctl EPERM\nadd_key EPERM\n"
        "perf EPERM\nuffd EPERM\nunshare EPERM\nsetns EPERM\nclone EPERM\nkcmp EPERM\nioctl EPERM\n"
        "ioctl EPERM\nclone3 ENOSYS\nio_uring ENOSYS\n");
}

TEST_CASE("Sandbox filter: sockets of families that reach past the namespaces are not there") {
  SandboxFixture f;
  const Exit exit =
      f.Run(f.Python("import errno, socket\n"
                     "socket.socketpair(); socket.socket(socket.AF_UNIX).close()\n"
                     "for family in (17, 30, 38, 40):\n"
                     "  try: socket.socket(family, socket.SOCK_STREAM); print(family, 'made')\n"
                     "  except OSError as e: print(family, errno.errorcode[e.errno])\n"));
  INFO(f.err);
  CHECK(exit.is_success());
  CHECK(f.out == "17 EAFNOSUPPORT\n30 EAFNOSUPPORT\n38 EAFNOSUPPORT\n40 EAFNOSUPPORT\n");
}

TEST_CASE("Sandbox filter: the kernel stands behind it too, without capabilities") {
  SandboxFixture f;
  CHECK(f.Run(Calls(absl::StrCat("print(call(", SYS_mount, ", 0, b'/tmp', b'tmpfs', 0, 0))\n",
                                 "print(call(", SYS_sethostname, ", b'x', 1))\n", "print(call(",
                                 SYS_chroot, ", b'/tmp'))\n", "print(call(", SYS_setresuid,
                                 ", 0, 0, 0))\n")))
            .is_success());
  CHECK(f.out.find("done") == std::string::npos);
  // Other processes' /proc folders: nothing but our own tree is there.
  CHECK(
      f.Run(f.Python("import os\n"
                     "print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[-1] < 20)\n"
                     "for path in ('/proc/1/mem', '/proc/sysrq-trigger', "
                     "'/proc/sys/kernel/core_pattern',\n"
                     "             '/proc/sys/vm/drop_caches'):\n"
                     "  try: open(path, 'r+b', buffering=0).write(b'x'); print(path, 'written')\n"
                     "  except OSError: pass\n"))
          .is_success());
  CHECK(f.out == "True\n");
}

TEST_CASE("Sandbox filter: threads, processes, pipes and a compiler work") {
  SandboxFixture f;
  SandboxSpec spec = f.Python("import runpy; runpy.run_path('/tmp/work.py', run_name='__main__')");
  spec.files = {
      {.inside_path = "/tmp/work.py",
       .bytes = "import asyncio, ctypes, multiprocessing, subprocess, threading\n"
                "def square(x): return x * x\n"
                "if __name__ == '__main__':\n"
                "  seen = []\n"
                "  threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(8)]\n"
                "  [t.start() for t in threads]; [t.join() for t in threads]\n"
                "  print(sorted(seen) == list(range(8)))\n"
                "  for method in ('fork', 'spawn', 'forkserver'):\n"
                "    with multiprocessing.get_context(method).Pool(2) as pool:\n"
                "      print(method, pool.map(square, [1, 2, 3]))\n"
                "  async def echo():\n"
                "    child = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)\n"
                "    return (await child.communicate(b'piped'))[0]\n"
                "  print(asyncio.run(echo()))\n"
                "  open('/tmp/a.c', 'w').write('int twice(int x) { return 2 * x; }')\n"
                "  subprocess.run(['gcc', '-shared', '-fPIC', '-o', '/tmp/a.so', '/tmp/a.c'], "
                "check=True)\n"
                "  print(ctypes.CDLL('/tmp/a.so').twice(21))\n"}};
  const Exit exit = f.Run(spec);
  INFO(f.err);
  CHECK(exit.is_success());
  CHECK(f.out == "True\nfork [1, 4, 9]\nspawn [1, 4, 9]\nforkserver [1, 4, 9]\nb'piped'\n42\n");
}

TEST_CASE("Sandbox filter: PyTorch with worker processes and shared tensors works") {
  SandboxFixture f;
  SandboxSpec spec = TorchSpec(
      "import torch, torch.utils.data as d\n"
      "data = d.TensorDataset(torch.arange(64.))\n"
      "print(sum(b[0].sum().item() for b in d.DataLoader(data, batch_size=16, num_workers=2)))\n"
      "print(torch.randn(512, 512).mm(torch.randn(512, 512)).shape)\n");
  const Exit exit = f.Run(spec);
  INFO(f.err);
  CHECK(exit.is_success());
  CHECK(f.out == "2016.0\ntorch.Size([512, 512])\n");
}

TEST_CASE("Capabilities: each layer is seen from inside, and the rest is missing") {
  SandboxFixture f;
  const Capabilities& found = f.host->capabilities();
  for (const char* layer : {"pidns", "mountns", "netns", "ipcns", "utsns", "seccomp",
                            "no-new-privs", "no-capabilities"}) {
    INFO(layer << " of " << absl::StrJoin(found.names, ","));
    CHECK(found.Has(layer));
  }
  CHECK(found.Has("uid") == f.is_root());
  CHECK(found.Has("cgroup-memory") !=
        absl::StrContains(absl::StrJoin(found.missing, ","), "memory"));
  CHECK(found.problems.size() == found.missing.size());
}

TEST_CASE("Capabilities: who requires all layers is told which is missing") {
  SandboxFixture f(HostOptions{.is_without_cgroups = true});
  const absl::Status status = RequireAllLayers(f.host->capabilities());
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(absl::StrContains(status.message(), "cgroup-memory, cgroup-freezer"));
  CHECK_FALSE(absl::StrContains(status.message(), "\n"));
  CHECK(RequireAllLayers({.names = {"all"}}).ok());
}

TEST_CASE("LayersSeen: what is as outside, or has rights, is no layer") {
  const Namespaces own = {
      {"pid", "pid:[1]"}, {"net", "net:[2]"}, {"user", "user:[3]"}, {"uts", ""}};
  const std::string seen =
      "Name:\tsh\nUid:\t0\t0\t0\t0\nCapInh:\t0000\nCapPrm:\t0001\nCapEff:\t0000\nCapBnd:\t00ff\n"
      "CapAmb:\t0000\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t2\n"
      "ns pid pid:[7]\nns net net:[2]\nns user user:[3]\nns uts uts:[4]\n";
  CHECK(LayersSeen(seen, own) == std::vector<std::string>{"pidns"});
}

}  // namespace pike::sandbox
