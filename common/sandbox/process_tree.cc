#include "common/sandbox/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>

#include "common/base/unique_fd.h"

namespace pike::sandbox {
namespace {

// Processes may fork while they are being stopped.
constexpr int kAffinityRounds = 10;
constexpr int kStopRounds = 20;

// Small files of /proc; nothing if the process is gone.
std::optional<std::string> ReadProc(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open())
    return std::nullopt;
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(fd.get(), buffer, sizeof buffer);
    if (count < 0)
      return std::nullopt;
    if (count == 0)
      return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

// Names in `folder` that are numbers.
std::vector<pid_t> NumbersIn(const std::string& folder) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (dir == nullptr)
    return numbers;
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own stream
    pid_t number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number))
      numbers.push_back(number);
  }
  return numbers;
}

// What /proc/<pid>/stat says after the command's name, which may hold anything.
struct Stat {
  char state = '?';
  pid_t parent = 0;
};

std::optional<Stat> StatOf(pid_t pid) {
  const std::optional<std::string> text = ReadProc(absl::StrCat("/proc/", pid, "/stat"));
  if (!text)
    return std::nullopt;
  const size_t end = text->rfind(')');
  if (end == std::string::npos)
    return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(*text).substr(end + 1), ' ', absl::SkipEmpty());
  Stat stat;
  if (fields.size() < 2 || fields[0].empty() || !absl::SimpleAtoi(fields[1], &stat.parent))
    return std::nullopt;
  stat.state = fields[0][0];
  return stat;
}

bool IsStill(pid_t pid) {
  const std::optional<Stat> stat = StatOf(pid);
  return !stat || stat->state == 'T' || stat->state == 't' || stat->state == 'Z' ||
         stat->state == 'X';
}

std::vector<pid_t> DescendantsOf(pid_t root) {
  std::vector<pid_t> tree = ProcessTree(root);
  tree.erase(tree.begin());
  return tree;
}

// Sum of the kB values of the named lines.
int64_t SumBytes(absl::string_view text, const std::vector<absl::string_view>& names) {
  int64_t sum_kb = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    for (const absl::string_view name : names) {
      if (!absl::StartsWith(line, name))
        continue;
      const std::vector<absl::string_view> parts =
          absl::StrSplit(line.substr(name.size()), absl::ByAnyChar(" \t"), absl::SkipEmpty());
      int64_t value_kb = 0;
      if (!parts.empty() && absl::SimpleAtoi(parts[0], &value_kb))
        sum_kb += value_kb;
    }
  }
  return sum_kb * 1024;
}

}  // namespace

std::vector<pid_t> ProcessTree(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : NumbersIn("/proc")) {
    if (const std::optional<Stat> stat = StatOf(pid))
      children.emplace(stat->parent, pid);
  }
  std::vector<pid_t> tree = {root};
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto [begin, end] = children.equal_range(tree[i]);
    for (auto child = begin; child != end; ++child)
      tree.push_back(child->second);
  }
  return tree;
}

bool StopDescendants(pid_t root) {
  for (int round = 0; round < kStopRounds; ++round) {
    const std::vector<pid_t> tree = DescendantsOf(root);
    if (std::all_of(tree.begin(), tree.end(), IsStill))
      return true;
    for (const pid_t pid : tree)
      kill(pid, SIGSTOP);
  }
  return false;
}

void ContinueDescendants(pid_t root) {
  for (const pid_t pid : DescendantsOf(root))
    kill(pid, SIGCONT);
}

void KeepTreeOn(pid_t root, absl::Span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    CPU_SET(static_cast<size_t>(core), &set);
  // One that was made while its parent was not there yet is found by the next look.
  for (int look = 0; look < kAffinityRounds; ++look) {
    bool is_settled = true;
    for (const pid_t pid : ProcessTree(root)) {
      for (const pid_t thread : NumbersIn(absl::StrCat("/proc/", pid, "/task"))) {
        cpu_set_t now;
        if (sched_getaffinity(thread, sizeof now, &now) != 0 || CPU_EQUAL(&now, &set))
          continue;
        is_settled = false;
        sched_setaffinity(thread, sizeof set, &set);
      }
    }
    if (is_settled)
      return;
  }
}

void KeepFirstThreadsOn(pid_t root, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  for (const pid_t pid : ProcessTree(root))
    sched_setaffinity(pid, sizeof set, &set);
}

int64_t TreeMemoryBytes(const std::vector<pid_t>& pids, bool is_exact) {
  int64_t sum = 0;
  for (const pid_t pid : pids) {
    const std::string folder = absl::StrCat("/proc/", pid);
    if (is_exact) {
      if (const auto exact = ReadProc(folder + "/smaps_rollup")) {
        sum += SumBytes(*exact, {"Pss_Anon:", "Pss_Shmem:", "SwapPss:"});
        continue;
      }
    }
    if (const auto status = ReadProc(folder + "/status"))
      sum += SumBytes(*status, {"RssAnon:", "RssShmem:", "VmSwap:"});
  }
  return sum;
}

}  // namespace pike::sandbox
