#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace pike::sandbox {

// A descriptor of a process, which its pid's reuse cannot redirect. Readable once the process has
// ended. (glibc 2.36 declares its wrappers without extern "C".)
inline UniqueFd OpenPidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

// False if the process is gone, or not ours to signal.
inline bool SignalPidfd(int pidfd, int signal) {
  return syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0;
}

}  // namespace pike::sandbox
