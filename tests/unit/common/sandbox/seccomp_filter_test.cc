// The compiled filter, run here instead of in the kernel: what it says to calls that cannot be made
// in a test, such as those of other architectures.

#include "common/sandbox/seccomp_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/testing/catch.h"

namespace pike::sandbox {
namespace {

constexpr uint32_t kAllowed = SECCOMP_RET_ALLOW;
#ifdef __x86_64__
constexpr uint32_t kNativeArch = AUDIT_ARCH_X86_64;
constexpr uint32_t kX32Bit = 0x40000000;
#else
constexpr uint32_t kNativeArch = AUDIT_ARCH_AARCH64;
#endif

uint32_t Refused(int error) {
  return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error);
}

// The instructions that a filter of system calls may hold, without those that libseccomp never
// uses.
class Machine {
 public:
  explicit Machine(const std::string& filter) : program_(filter.size() / sizeof(sock_filter)) {
    REQUIRE((!program_.empty() && filter.size() % sizeof(sock_filter) == 0));
    memcpy(program_.data(), filter.data(), filter.size());
  }

  uint32_t Run(const seccomp_data& call) const {
    uint32_t value = 0;
    for (size_t i = 0; i < program_.size(); ++i) {
      const sock_filter& step = program_[i];
      switch (step.code) {
        case BPF_LD | BPF_W | BPF_ABS:
          REQUIRE(step.k + sizeof value <= sizeof call);
          memcpy(&value, reinterpret_cast<const char*>(&call) + step.k, sizeof value);
          break;
        case BPF_ALU | BPF_AND | BPF_K:
          value &= step.k;
          break;
        case BPF_JMP | BPF_JA:
          i += step.k;
          break;
        case BPF_JMP | BPF_JEQ | BPF_K:
          i += value == step.k ? step.jt : step.jf;
          break;
        case BPF_JMP | BPF_JGT | BPF_K:
          i += value > step.k ? step.jt : step.jf;
          break;
        case BPF_JMP | BPF_JGE | BPF_K:
          i += value >= step.k ? step.jt : step.jf;
          break;
        case BPF_RET | BPF_K:
          return step.k;
        default:
          FAIL("an instruction that this test does not know: " << step.code);
      }
    }
    FAIL("no answer");
    return 0;
  }

 private:
  std::vector<sock_filter> program_;
};

class Filter {
 public:
  Filter() : machine_(MakeSeccompFilter().value()) {}

  uint32_t operator()(long number, std::array<uint64_t, 2> arguments = {},
                      uint32_t arch = kNativeArch) const {
    seccomp_data call{.nr = static_cast<int>(number), .arch = arch};
    call.args[0] = arguments[0];
    call.args[1] = arguments[1];
    return machine_.Run(call);
  }

 private:
  const Machine machine_;
};

}  // namespace

TEST_CASE("SeccompFilter: refuses what it names, with an error and never a kill") {
  const Filter answer;
  for (const long number : {SYS_ptrace,
                            SYS_process_vm_readv,
                            SYS_process_vm_writev,
                            SYS_pidfd_getfd,
                            SYS_keyctl,
                            SYS_add_key,
                            SYS_bpf,
                            SYS_perf_event_open,
                            SYS_userfaultfd,
                            SYS_unshare,
                            SYS_setns,
                            SYS_mount,
                            SYS_umount2,
                            SYS_pivot_root,
                            SYS_fsopen,
                            SYS_open_tree,
                            SYS_move_mount,
                            SYS_open_by_handle_at,
                            SYS_quotactl,
                            SYS_settimeofday,
                            SYS_clock_settime,
                            SYS_adjtimex,
                            SYS_kexec_load,
                            SYS_init_module,
                            SYS_reboot,
                            SYS_swapon,
                            SYS_acct,
                            SYS_kcmp}) {
    INFO(number);
    CHECK(answer(number) == Refused(EPERM));
  }
  for (const long number :
       {SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}) {
    INFO(number);
    CHECK(answer(number) == Refused(ENOSYS));
  }
}

TEST_CASE("SeccompFilter: allows what programs, compilers and drivers live on") {
  const Filter answer;
  for (const long number : {SYS_read,
                            SYS_write,
                            SYS_openat,
                            SYS_mmap,
                            SYS_mprotect,
                            SYS_munmap,
                            SYS_mremap,
                            SYS_futex,
                            SYS_execve,
                            SYS_wait4,
                            SYS_kill,
                            SYS_pidfd_open,
                            SYS_memfd_create,
                            SYS_sendmsg,
                            SYS_recvmsg,
                            SYS_epoll_pwait,
                            SYS_mbind,
                            SYS_get_mempolicy,
                            SYS_sched_setaffinity,
                            SYS_prctl,
                            SYS_capset,
                            SYS_setresuid,
                            SYS_setresgid,
                            SYS_setgroups,
                            SYS_seccomp,
                            SYS_personality,
                            SYS_splice}) {
    INFO(number);
    CHECK(answer(number) == kAllowed);
  }
  CHECK(answer(SYS_clone, {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                           CLONE_SYSVSEM | CLONE_SETTLS}) == kAllowed);
  CHECK(answer(SYS_clone, {CLONE_VM | CLONE_VFORK | 17}) == kAllowed);
  for (const uint64_t family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
    CHECK(answer(SYS_socket, {family, SOCK_STREAM}) == kAllowed);
  CHECK(answer(SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET}) == kAllowed);
  CHECK(answer(SYS_ioctl, {0, 0xc020462a}) == kAllowed);  // NVIDIA's are of this kind
  CHECK(answer(SYS_ioctl, {0, TIOCGWINSZ}) == kAllowed);
}

TEST_CASE("SeccompFilter: arguments are compared as the kernel reads them") {
  const Filter answer;
  constexpr uint64_t kHighBit = uint64_t{1} << 40;
  for (const uint64_t flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                              CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET}) {
    INFO(flag);
    CHECK(answer(SYS_clone, {flag | 17}) == Refused(EPERM));
    CHECK(answer(SYS_clone, {flag | 17 | kHighBit}) == Refused(EPERM));
  }
  for (const uint64_t family : {AF_UNSPEC, AF_PACKET, AF_TIPC, AF_ALG, AF_VSOCK, AF_XDP}) {
    INFO(family);
    CHECK(answer(SYS_socket, {family}) == Refused(EAFNOSUPPORT));
    CHECK(answer(SYS_socket, {family | kHighBit}) == Refused(EAFNOSUPPORT));
  }
  for (const uint64_t request : {TIOCSTI, TIOCLINUX}) {
    INFO(request);
    CHECK(answer(SYS_ioctl, {0, request}) == Refused(EPERM));
    CHECK(answer(SYS_ioctl, {0, request | kHighBit}) == Refused(EPERM));
  }
}

TEST_CASE("SeccompFilter: of other architectures no call is there") {
  const Filter answer;
  CHECK(answer(SYS_read, {}, AUDIT_ARCH_I386) == Refused(ENOSYS));
  CHECK(answer(26, {}, AUDIT_ARCH_I386) == Refused(ENOSYS));  // its ptrace
  CHECK(answer(SYS_read, {}, AUDIT_ARCH_ARM) == Refused(ENOSYS));
#ifdef __x86_64__
  CHECK(answer(kX32Bit | SYS_read) == Refused(ENOSYS));
  CHECK(answer(kX32Bit | 521) == Refused(ENOSYS));  // its ptrace
#endif
}

}  // namespace pike::sandbox
