#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/sandbox/spec.h"

namespace pike::sandbox {

class SandboxHost;

// For the processes of a sandbox to be gone after they were killed; with a GPU's memory it takes
// seconds at most.
inline constexpr std::chrono::seconds kGoneTimeout{30};

// What a sandbox wrote to one stream. Untrusted bytes: escape them before showing (text.h).
struct CapturedOutput {
  std::string head;
  std::string tail;  // empty while everything fits into `head`
  int64_t bytes_total = 0;

  int64_t bytes_left_out() const {
    return bytes_total - static_cast<int64_t>(head.size() + tail.size());
  }
  // Head, a line that says how much is left out (if any), tail.
  std::string Text() const;
};

// How a sandbox ended. Facts only; blame is the caller's business.
struct Exit {
  // Exit status of the program, or the signal that ended it (0: none). bubblewrap reports signals
  // as 128 + number, so a program that exits with 129 to 192 shows as a signal. A program that
  // could not be executed shows as status 126 or 127, with the reason on stderr.
  int status = 0;
  int signal = 0;
  bool is_killed = false;     // by Kill(), WaitOrKill() or the destructor
  bool is_timed_out = false;  // WaitOrKill()'s deadline passed
  bool memory_limit_hit = false;
  // It was killed, or came to its end, but processes of it are still there after kGoneTimeout: they
  // hang in the kernel, in a driver say. It is given up, and its uid is not used again.
  bool is_stuck = false;
  bool is_host_full = false;  // killed since the host had no memory left, below its own limit
  std::optional<int64_t> memory_peak_bytes = {};  // page cache included where a cgroup counts
  std::chrono::nanoseconds wall_time{};
  std::chrono::nanoseconds cpu_time{};  // of all processes; incomplete after a kill

  bool is_success() const {
    return status == 0 && signal == 0 && !is_killed && !memory_limit_hit && !is_stuck;
  }
  // "exit status 3", "signal 11 (Segmentation fault)", "memory limit", "timed out", ...
  std::string Text() const;
};

// A running (or ended) sandbox. Made by SandboxHost::Start.
// Ownership: the destructor kills the tree and waits until it is gone (or given up, see
// Exit::is_stuck). The host must outlive it.
// Threads: any member from any thread. A Kill wakes up every Wait.
class Sandbox {
 public:
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  // Waits for the end of the program, and with it of the whole tree. Nothing if `deadline` comes
  // first. What still holds stdout open does not matter. After the end returns the same again.
  // Takes longer only if the program has ended and the rest of its tree hangs.
  std::optional<Exit> Wait(MonoTime deadline);

  // As Wait, but kills at `deadline`.
  Exit WaitOrKill(MonoTime deadline);

  // Kills the whole tree, whatever session or process group its processes moved to, and waits until
  // it is gone or given up. Idempotent.
  Exit Kill();

  // Stops all of its processes until Thaw, by the kernel's freezer where there is a cgroup of
  // version 2, else by SIGSTOP. It can be killed meanwhile. In two steps, so that several can be
  // frozen at once.
  absl::Status StartFreezing();
  // Unavailable: they did not all stand still by `deadline`.
  absl::Status WaitFrozen(MonoTime deadline);
  void Thaw();
  // Keeps all of its threads, and those to come, on these cores.
  void KeepOn(const std::vector<int>& cores);
  // Keeps the first thread of each of its processes on one core. What other threads may use stays.
  void KeepFirstThreadsOn(int core);

  // Its processes as this host numbers them.
  std::vector<pid_t> Processes() const;

  // What was written so far; complete once it has ended.
  CapturedOutput Stdout() const;
  CapturedOutput Stderr() const;

  // Outside pid of the sandbox's init (pid 1 inside). For evidence and tests.
  pid_t init_pid() const;
  // The real uid that its processes have on this host.
  uid_t outside_uid() const;
  const std::string& name() const;

  class Impl;

 private:
  friend class SandboxHost;
  explicit Sandbox(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace pike::sandbox
