#include "cli/up/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"

extern char** environ;

namespace pike::cli {
namespace {

constexpr int kExecFailed = 127;

std::vector<char*> ToArgv(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv)
    pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

ProcessEnd ToProcessEnd(int wait_status) {
  ProcessEnd end;
  if (WIFSIGNALED(wait_status))
    end.signal = WTERMSIG(wait_status);
  else
    end.exit_status = WEXITSTATUS(wait_status);
  return end;
}

// Runs between fork and exec: only async-signal-safe calls.
[[noreturn]] void BecomeChild(pid_t parent, char* const* argv) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the line above: then nobody would ever tell.
  if (::getppid() != parent)
    ::_exit(kExecFailed);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  if (null_fd >= 0)
    ::dup2(null_fd, STDIN_FILENO);
  if (null_fd > STDERR_FILENO)
    ::close(null_fd);
  ::execv(argv[0], argv);
  ::_exit(kExecFailed);
}

}  // namespace

std::string ProcessEnd::ToText() const {
  if (signal != 0)
    return absl::StrCat("signal ", signal, " (",
                        ::sigabbrev_np(signal) ? ::sigabbrev_np(signal) : "?", ")");
  return absl::StrCat("exit status ", exit_status);
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& argv) {
  const std::vector<char*> pointers = ToArgv(argv);
  if (::access(pointers[0], X_OK) != 0)
    return ErrnoStatus(errno, absl::StrCat("cannot start ", argv[0]));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    return ErrnoStatus(errno, "fork");
  if (pid == 0)
    BecomeChild(parent, pointers.data());
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    KillAndReap();
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  KillAndReap();
}

std::optional<ProcessEnd> ChildProcess::TryReap() {
  int wait_status = 0;
  if (pid_ < 0 || ::waitpid(pid_, &wait_status, WNOHANG) != pid_)
    return std::nullopt;
  pid_ = -1;
  return ToProcessEnd(wait_status);
}

void ChildProcess::Signal(int signal_number) const {
  if (pid_ > 0)
    ::kill(pid_, signal_number);
}

void ChildProcess::KillAndReap() {
  if (pid_ < 0)
    return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

absl::StatusOr<ProcessEnd> RunQuietly(const std::vector<std::string>& argv) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const std::vector<char*> pointers = ToArgv(argv);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return ErrnoStatus(error, absl::StrCat("cannot start ", argv[0]));
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0) {
    if (errno != EINTR)
      return ErrnoStatus(errno, "waitpid");
  }
  return ToProcessEnd(wait_status);
}

}  // namespace pike::cli
