#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/sandbox/spec.h"

namespace pike::sandbox {

// A program to run as it is, without a sandbox. For trusted programs only.
struct ProcessSpec {
  std::vector<std::string> argv;  // argv[0] is a path
  // Whole environment as "NAME=value". Unset: ours.
  std::optional<std::vector<std::string>> environment = {};
  // Descriptors by their numbers inside; 0 is /dev/null unless given, 1 and 2 are ours unless
  // given. All others are closed.
  std::vector<PassedFd> fds = {};
};

struct ProcessEnd {
  int wait_status = 0;                  // as of waitpid(2)
  std::chrono::nanoseconds cpu_time{};  // the child's and those of descendants that were waited for
  MonoTime time = {};
};

// A child process. Destroying it does not end it: the spawner still reaps it.
// Threads: any member from any thread.
class Child {
 public:
  virtual ~Child() = default;
  virtual pid_t pid() const = 0;
  // Nothing if `deadline` comes first.
  virtual std::optional<ProcessEnd> Wait(MonoTime deadline) = 0;
  // Sends a signal; never to another process, not even after the child was reaped.
  virtual void Signal(int signal) = 0;
};

// The thread that spawns and reaps all children of a process. bubblewrap's --die-with-parent (and
// PR_SET_PDEATHSIG as such) is about the *thread* that spawned: so it is one that lives on.
// Children get an own process group, default signal actions and an empty signal mask.
// The destructor ends children that are still there with SIGKILL and reaps them.
class Spawner {
 public:
  Spawner();
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  absl::StatusOr<std::shared_ptr<Child>> Spawn(const ProcessSpec& spec);

  class Impl;

 private:
  const std::unique_ptr<Impl> impl_;
};

}  // namespace pike::sandbox
