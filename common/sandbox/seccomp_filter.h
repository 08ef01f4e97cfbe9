#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace pike::sandbox {

// Whether this kernel takes system call filters from us.
bool HasSeccomp();

// The filter that all sandboxes run under, compiled: what `bwrap --seccomp` reads. It allows what
// it does not name and never kills: what is refused fails with an error number, as on a kernel
// without it, so programs that only try go on. Refused are other processes' memory and descriptors,
// the kernel's keys, namespaces, mounts, the clock, whatever administers the machine, interfaces
// whose size makes them the usual way into the kernel (bpf, perf, io_uring, userfaultfd), sockets
// other than Unix, IP and netlink ones, and input faked on a terminal. Of other architectures'
// calls (32 bits, x32) none is there. Starting programs is allowed: Triton runs compilers in the
// first call.
absl::StatusOr<std::string> MakeSeccompFilter();

}  // namespace pike::sandbox
