#pragma once

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <vector>

namespace pike::testing {

// A process as /proc shows it: its parent, its state and its command line with blanks.
struct ProcessLine {
  pid_t parent = 0;
  char state = '?';
  std::string command;
};

inline std::map<pid_t, ProcessLine> AllProcesses() {
  std::map<pid_t, ProcessLine> all;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos)
      continue;
    std::ifstream stat(entry.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
    const size_t end = text.rfind(") ");
    if (end == std::string::npos)
      continue;
    ProcessLine line;
    line.state = text[end + 2];
    line.parent = static_cast<pid_t>(std::strtol(text.c_str() + end + 4, nullptr, 10));
    std::ifstream command(entry.path() / "cmdline");
    line.command.assign(std::istreambuf_iterator<char>(command), std::istreambuf_iterator<char>());
    for (char& c : line.command) {
      if (c == '\0')
        c = ' ';
    }
    all.emplace(static_cast<pid_t>(std::stol(name)), std::move(line));
  }
  return all;
}

// Living processes below `root` whose command line holds `word`.
inline std::vector<pid_t> Descendants(pid_t root, const std::string& word) {
  const std::map<pid_t, ProcessLine> all = AllProcesses();
  std::vector<pid_t> found;
  for (const auto& [pid, line] : all) {
    if (line.state == 'Z' || line.command.find(word) == std::string::npos)
      continue;
    pid_t parent = line.parent;
    while (parent > 1 && parent != root && all.contains(parent))
      parent = all.at(parent).parent;
    if (parent == root)
      found.push_back(pid);
  }
  return found;
}

// Living processes anywhere whose command line holds `word`.
inline std::vector<pid_t> Processes(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& [pid, line] : AllProcesses()) {
    if (pid != ::getpid() && line.state != 'Z' && line.command.find(word) != std::string::npos)
      found.push_back(pid);
  }
  return found;
}

inline int KillAll(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids)
    ::kill(pid, SIGKILL);
  return static_cast<int>(pids.size());
}

}  // namespace pike::testing
