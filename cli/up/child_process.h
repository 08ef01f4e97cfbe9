#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace pike::cli {

// How a process ended: an exit status, or the signal that ended it.
struct ProcessEnd {
  int exit_status = 0;
  int signal = 0;

  std::string ToText() const;  // "exit status 1", "signal 9 (Killed)"
};

// A child in its own process group, so that Ctrl-C in the terminal reaches only this process. The
// kernel kills the child when the thread that started it ends, however that happens: call Start on
// the main thread. Standard input is /dev/null, outputs are inherited, signals are unblocked. The
// destructor kills and reaps what still runs. Not thread-safe.
class ChildProcess {
 public:
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  // Does not block. Once it returned a value the process is reaped.
  std::optional<ProcessEnd> TryReap();
  void Signal(int signal_number) const;
  pid_t pid() const { return pid_; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  void KillAndReap();

  pid_t pid_ = -1;  // -1 once reaped
};

// Runs a command to its end with outputs discarded. NotFound if it cannot be started.
absl::StatusOr<ProcessEnd> RunQuietly(const std::vector<std::string>& argv);

}  // namespace pike::cli
