#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

namespace pike::sandbox {

// A host path made visible inside. Folders above `inside_path` are made with mode 0755.
struct Bind {
  std::string host_path;
  std::string inside_path;
};

// A private, sized, executable file system in memory. Its pages count as the sandbox's memory
// (without a memory cgroup only those that are mapped); writing more than `size_bytes_max` gives
// ENOSPC inside.
struct TmpfsMount {
  std::string inside_path;
  int64_t size_bytes_max = 0;
  unsigned mode = 01777;
};

// A file made inside before the program starts (say, a candidate's source in its work folder).
struct InsideFile {
  std::string inside_path;
  std::string bytes;
  unsigned mode = 0644;
};

// A descriptor that the program gets under the number `inside_fd` (3 to 99, not 9). It stays the
// caller's: Sandbox::Start duplicates it, so the caller closes its own copy, also for end of file
// to work.
struct PassedFd {
  int host_fd = -1;
  int inside_fd = -1;
};

struct ResourceLimits {
  int64_t open_files_max = 4096;
  // Largest file that can be written, memfds included.
  int64_t file_bytes_max = int64_t{1} << 30;
  // Processes and threads: the pids cgroup where there is one, and RLIMIT_NPROC.
  int64_t processes_max = 1024;
  // Memory of the whole tree. Unset: no limit. Above it the tree is killed.
  std::optional<int64_t> memory_bytes_max = {};
};

// What a sandbox holds. The root file system is an allow-list: /usr with its links, the dynamic
// loader's configuration, generated passwd and group, a fresh /proc, a minimal /dev, /tmp and
// /dev/shm in memory, and what is named here; all of it read-only but the tmpfs and
// `writable_binds`. There is never a network, nor a capability. Standard input is /dev/null.
struct SandboxSpec {
  // For messages and logs, e.g. "import". [a-z0-9-], at most 32 characters.
  std::string name = "sandbox";
  // argv[0] is a path inside, or a name looked up in the PATH of `environment`.
  std::vector<std::string> argv = {};
  // The whole environment. Unset PATH is "/usr/bin:/bin", unset HOME and TMPDIR are "/tmp".
  std::map<std::string, std::string> environment = {};
  std::string working_folder = "/tmp";

  std::vector<Bind> read_only_binds = {};
  // Writable by the sandbox, chowned to its uid where we are root. Not bounded in size but by
  // `file_bytes_max` per file: for trusted programs only. A candidate gets `tmpfs`, and results
  // leave by a descriptor (see ResultFile in result_file.h).
  std::vector<Bind> writable_binds = {};
  int64_t tmp_bytes_max = int64_t{1} << 30;        // /tmp
  int64_t dev_shm_bytes_max = int64_t{256} << 20;  // /dev/shm
  std::vector<TmpfsMount> tmpfs = {};              // further ones, e.g. a work folder
  std::vector<InsideFile> files = {};
  std::vector<PassedFd> fds = {};
  // Host device nodes, e.g. "/dev/nvidia0", at the same path inside. None for cpu.
  std::vector<std::string> devices = {};

  ResourceLimits limits = {};
  // Cores that it may use. Empty: the worker's own.
  std::vector<int> cpus = {};
  int nice = 0;  // 0 to 19
  // As root: the real uid and gid are the host's uid base + this. Unset: the lowest one not in use.
  std::optional<int> uid_slot = {};

  // Of each of stdout and stderr, this much of the start and of the end is kept.
  size_t output_head_bytes_max = size_t{32} << 10;
  size_t output_tail_bytes_max = size_t{32} << 10;
};

// OK, or InvalidArgument with all problems of `spec`.
absl::Status ValidateSpec(const SandboxSpec& spec);

}  // namespace pike::sandbox
