#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "common/sandbox/spec.h"

namespace pike::sandbox {

// Descriptor numbers at bubblewrap's start. A spec's own go up to kInsideFdMax; kReadyFd belongs to
// the gate (below 10: a POSIX shell cannot redirect others); the rest is bubblewrap's, which closes
// it before the program runs.
inline constexpr int kReadyFd = 9;
inline constexpr int kInsideFdMax = 99;
inline constexpr int kInfoFd = 100;
inline constexpr int kArgumentsFd = 101;
inline constexpr int kFirstFileFd = 102;

// What is the same for all sandboxes of a host.
struct RootLayout {
  bool is_root = false;
  std::string bwrap;  // absolute paths
  std::string setpriv;
  std::string prlimit;
  std::string seccomp_filter;                              // compiled; empty: none
  std::vector<std::pair<std::string, std::string>> links;  // path -> target, e.g. /bin -> usr/bin
  std::vector<std::string> folders;  // of the same kind, but real folders on this host
};

// Reads the layout of this host: which of /bin, /lib, ... are links.
RootLayout ReadRootLayout();

struct BwrapCommand {
  std::vector<std::string> argv;
  std::string arguments;           // content of kArgumentsFd: NUL-terminated options
  std::vector<std::string> files;  // contents of kFirstFileFd and following
};

// The command line of `spec`, a valid one. `uid` is the real one that its processes shall get as
// root, else unused. Pure.
//
// Two gates hold the start, each waiting for a line on standard input, a socket to us: the first
// before bubblewrap runs (so that limits set on it hold for all that follows), the second, inside,
// before the program runs. Their end of file means that we died. So a sandbox whose parent is
// killed in the middle of the set-up, when bubblewrap's --die-with-parent is not in force yet, ends
// by itself. The second gate says "ok" on kReadyFd and closes it.
BwrapCommand MakeBwrapCommand(const SandboxSpec& spec, const RootLayout& layout, uid_t uid);

}  // namespace pike::sandbox
