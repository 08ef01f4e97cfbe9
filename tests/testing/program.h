#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/unique_fd.h"
#include "tests/testing/catch.h"

extern char** environ;

namespace pike::testing {

// A program under test. Its standard output is read through a pipe, its standard error kept in a
// file. The destructor kills and reaps it.
class Program {
 public:
  struct Outcome {
    int exit_code = -1;  // negative: the signal that ended it
    std::string out;     // what was not read before
    std::string err;
  };

  explicit Program(std::vector<std::string> argv) : folder_(*TempFolder::Create("pike-program")) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    out_.Reset(ends[0]);
    const UniqueFd write_end(ends[1]);
    std::vector<char*> pointers;
    for (std::string& argument : argv)
      pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, ErrPath().c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int error =
        ::posix_spawn(&pid_, pointers[0], &actions, nullptr, pointers.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    REQUIRE(error == 0);
  }
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal_number) const { ::kill(pid_, signal_number); }

  // Reads standard output up to and including `text`. Fails the test, with all there is, at its
  // end.
  std::string ReadUntil(const std::string& text) {
    while (unread_.find(text) == std::string::npos) {
      if (!ReadSome())
        FAIL("no \"" << text << "\" in: " << unread_ << "\n" << Err());
    }
    const size_t end = unread_.find(text) + text.size();
    std::string read = unread_.substr(0, end);
    unread_.erase(0, end);
    return read;
  }

  // Waits for the program's end.
  Outcome Finish() {
    while (ReadSome()) {
    }
    int status = 0;
    REQUIRE(::waitpid(std::exchange(pid_, -1), &status, 0) > 0);
    Outcome outcome;
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    outcome.out = std::move(unread_);
    outcome.err = Err();
    return outcome;
  }

  std::string Err() const { return ReadFile(ErrPath(), 64 << 20).value_or(""); }

 private:
  std::string ErrPath() const { return folder_.path() + "/err"; }

  bool ReadSome() {
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(out_.get(), buffer.data(), buffer.size());
    if (count > 0)
      unread_.append(buffer.data(), static_cast<size_t>(count));
    return count > 0;
  }

  TempFolder folder_;
  UniqueFd out_;
  std::string unread_;
  pid_t pid_ = -1;
};

// Path of one of our programs. The build names their folder in the environment.
inline std::string BinPath(const std::string& name) {
  const char* folder = std::getenv("PIKE_BIN_DIR");
  REQUIRE(folder != nullptr);
  return std::string(folder) + "/" + name;
}

}  // namespace pike::testing
