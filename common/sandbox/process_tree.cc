#include "common/sandbox/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

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

// Parent of a process: the second field after the command's name, which may hold anything.
std::optional<pid_t> ParentOf(pid_t pid) {
  const std::optional<std::string> text = ReadProc(absl::StrCat("/proc/", pid, "/stat"));
  if (!text)
    return std::nullopt;
  const size_t end = text->rfind(')');
  if (end == std::string::npos)
    return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(*text).substr(end + 1), ' ', absl::SkipEmpty());
  pid_t parent = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &parent))
    return std::nullopt;
  return parent;
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
    if (const std::optional<pid_t> parent = ParentOf(pid))
      children.emplace(*parent, pid);
  }
  std::vector<pid_t> tree = {root};
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto [begin, end] = children.equal_range(tree[i]);
    for (auto child = begin; child != end; ++child)
      tree.push_back(child->second);
  }
  return tree;
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
