#include "common/sandbox/seccomp_filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "common/base/errno_status.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace pike::sandbox {
namespace {

constexpr size_t kFilterBytesMax = size_t{64} << 10;
// The kernel reads only these bits of an `int` argument, so a comparison must not see the others.
constexpr uint64_t kIntBits = 0xffffffff;
// Beside Unix sockets those that container runtimes allow, under which CUDA is known to work. In
// the sandbox's own network namespace there is nobody to talk to. The kernel knows none from AF_MAX
// on.
constexpr uint64_t kFamilies[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

struct DeniedCall {
  const char* name;
  int error;
};

// ENOSYS where programs then fall back to something older, EPERM elsewhere.
constexpr DeniedCall kDeniedCalls[] = {
    // Other processes.
    {"ptrace", EPERM},
    {"process_vm_readv", EPERM},
    {"process_vm_writev", EPERM},
    {"process_madvise", EPERM},
    {"pidfd_getfd", EPERM},
    {"kcmp", EPERM},
    {"move_pages", EPERM},
    {"migrate_pages", EPERM},
    // Keys outlive processes and belong to no namespace.
    {"keyctl", EPERM},
    {"add_key", EPERM},
    {"request_key", EPERM},
    // Large interfaces of the kernel that nothing honest needs here.
    {"bpf", EPERM},
    {"perf_event_open", EPERM},
    {"userfaultfd", EPERM},
    {"io_uring_setup", ENOSYS},
    {"io_uring_enter", ENOSYS},
    {"io_uring_register", ENOSYS},
    {"fanotify_init", EPERM},
    {"lookup_dcookie", EPERM},
    {"nfsservctl", ENOSYS},
    {"uselib", ENOSYS},
    {"modify_ldt", ENOSYS},
    // Namespaces and mounts. clone3 hides its flags from a filter; without it libc uses clone.
    {"unshare", EPERM},
    {"setns", EPERM},
    {"clone3", ENOSYS},
    {"mount", EPERM},
    {"umount2", EPERM},
    {"pivot_root", EPERM},
    {"chroot", EPERM},
    {"move_mount", EPERM},
    {"open_tree", EPERM},
    {"fsopen", EPERM},
    {"fsconfig", EPERM},
    {"fsmount", EPERM},
    {"fspick", EPERM},
    {"mount_setattr", EPERM},
    {"open_by_handle_at", EPERM},
    {"name_to_handle_at", EPERM},
    {"quotactl", EPERM},
    {"quotactl_fd", EPERM},
    // The machine.
    {"settimeofday", EPERM},
    {"clock_settime", EPERM},
    {"clock_adjtime", EPERM},
    {"adjtimex", EPERM},
    {"acct", EPERM},
    {"syslog", EPERM},
    {"reboot", EPERM},
    {"swapon", EPERM},
    {"swapoff", EPERM},
    {"init_module", EPERM},
    {"finit_module", EPERM},
    {"delete_module", EPERM},
    {"kexec_load", EPERM},
    {"kexec_file_load", EPERM},
    {"iopl", EPERM},
    {"ioperm", EPERM},
    {"vhangup", EPERM},
};

constexpr uint64_t kNamespaceFlags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                        CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};

struct ContextRelease {
  void operator()(void* context) const { seccomp_release(context); }
};
using Context = std::unique_ptr<void, ContextRelease>;

// The error of libseccomp's call `what`, a negative error number.
absl::Status Check(int result, const char* what) {
  return result == 0 ? absl::OkStatus() : ErrnoStatus(-result, absl::StrCat("libseccomp: ", what));
}

absl::Status DenyCalls(scmp_filter_ctx context) {
  for (const DeniedCall& call : kDeniedCalls) {
    const int number = seccomp_syscall_resolve_name(call.name);
    PIKE_CHECK(number != __NR_SCMP_ERROR);
    // A call that this architecture does not have is left out by libseccomp.
    RETURN_IF_ERROR(Check(
        seccomp_rule_add(context, SCMP_ACT_ERRNO(static_cast<uint32_t>(call.error)), number, 0),
        call.name));
  }
  return absl::OkStatus();
}

absl::Status DenyByArgument(scmp_filter_ctx context, int error, int number, scmp_arg_cmp argument) {
  return Check(seccomp_rule_add_array(context, SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), number,
                                      1, &argument),
               "a rule with an argument");
}

absl::Status DenyArguments(scmp_filter_ctx context) {
  for (const uint64_t flag : kNamespaceFlags)
    RETURN_IF_ERROR(DenyByArgument(context, EPERM, SCMP_SYS(clone),
                                   scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, flag, flag}));
  for (uint64_t family = 0; family < AF_MAX; ++family) {
    if (std::count(std::begin(kFamilies), std::end(kFamilies), family) > 0)
      continue;
    for (const int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)}) {
      RETURN_IF_ERROR(DenyByArgument(context, EAFNOSUPPORT, call,
                                     scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, kIntBits, family}));
    }
  }
  for (const uint64_t request : {uint64_t{TIOCSTI}, uint64_t{TIOCLINUX}})
    RETURN_IF_ERROR(DenyByArgument(context, EPERM, SCMP_SYS(ioctl),
                                   scmp_arg_cmp{1, SCMP_CMP_MASKED_EQ, kIntBits, request}));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Compile(scmp_filter_ctx context) {
  const UniqueFd file(memfd_create("pike-seccomp", MFD_CLOEXEC));
  if (!file.is_open())
    return ErrnoStatus(errno, "memfd_create");
  RETURN_IF_ERROR(Check(seccomp_export_bpf(context, file.get()), "export"));
  std::string bytes(kFilterBytesMax, '\0');
  const ssize_t count = pread(file.get(), bytes.data(), bytes.size(), 0);
  if (count < 0)
    return ErrnoStatus(errno, "read the filter");
  PIKE_CHECK(count > 0 && static_cast<size_t>(count) < bytes.size());
  bytes.resize(static_cast<size_t>(count));
  return bytes;
}

}  // namespace

bool HasSeccomp() {
  const uint32_t action = SECCOMP_RET_ERRNO;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

absl::StatusOr<std::string> MakeSeccompFilter() {
  const Context context(seccomp_init(SCMP_ACT_ALLOW));
  if (context == nullptr)
    return absl::InternalError("libseccomp does not start");
  RETURN_IF_ERROR(Check(
      seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)), "badarch"));
  // A binary tree: the default, a chain, costs each call a comparison per rule.
  RETURN_IF_ERROR(Check(seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize"));
  RETURN_IF_ERROR(DenyCalls(context.get()));
  RETURN_IF_ERROR(DenyArguments(context.get()));
  return Compile(context.get());
}

}  // namespace pike::sandbox
