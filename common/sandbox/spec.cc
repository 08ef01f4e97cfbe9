#include "common/sandbox/spec.h"

#include <set>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/string_view.h>

#include "common/sandbox/bwrap_command.h"

namespace pike::sandbox {
namespace {

constexpr size_t kNameLengthMax = 32;
constexpr size_t kFilesMax = 64;

bool HasNul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

bool IsCleanPath(const std::string& path) {
  return path.size() > 1 && path[0] == '/' && path.back() != '/' && !HasNul(path) &&
         !absl::StrContains(path, "//") && !absl::StrContains(path, "/../") &&
         !absl::EndsWith(path, "/..") && !absl::StrContains(path, "/./");
}

class ProblemList {
 public:
  void Unless(bool is_good, absl::string_view problem) {
    if (!is_good)
      problems_.emplace_back(problem);
  }
  void CheckPath(absl::string_view what, const std::string& path) {
    Unless(IsCleanPath(path), absl::StrCat(what, " \"", path, "\" is not a clean absolute path"));
  }
  absl::Status Take(absl::string_view name) const {
    if (problems_.empty())
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("sandbox ", name, ": ", absl::StrJoin(problems_, "; ")));
  }

 private:
  std::vector<std::string> problems_;
};

void CheckPaths(const SandboxSpec& spec, ProblemList* problems) {
  for (const std::vector<Bind>* binds : {&spec.read_only_binds, &spec.writable_binds}) {
    for (const Bind& bind : *binds) {
      problems->CheckPath("bind source", bind.host_path);
      problems->CheckPath("bind target", bind.inside_path);
    }
  }
  for (const TmpfsMount& mount : spec.tmpfs) {
    problems->CheckPath("tmpfs", mount.inside_path);
    problems->Unless(mount.size_bytes_max > 0,
                     absl::StrCat("tmpfs ", mount.inside_path, " has no size"));
  }
  problems->Unless(spec.tmp_bytes_max > 0 && spec.dev_shm_bytes_max > 0,
                   "/tmp or /dev/shm has no size");
  for (const InsideFile& file : spec.files)
    problems->CheckPath("file", file.inside_path);
  problems->Unless(spec.files.size() <= kFilesMax, absl::StrCat("more than ", kFilesMax, " files"));
  for (const std::string& device : spec.devices) {
    problems->CheckPath("device", device);
    problems->Unless(absl::StartsWith(device, "/dev/"),
                     absl::StrCat("device ", device, " is not in /dev"));
  }
  problems->CheckPath("working folder", spec.working_folder);
}

void CheckFds(const SandboxSpec& spec, ProblemList* problems) {
  std::set<int> numbers;
  for (const PassedFd& fd : spec.fds) {
    problems->Unless(fd.host_fd >= 0, "a passed descriptor is not open");
    problems->Unless(fd.inside_fd >= 3 && fd.inside_fd <= kInsideFdMax && fd.inside_fd != kReadyFd,
                     absl::StrCat("descriptor number ", fd.inside_fd, " is not to be had"));
    problems->Unless(numbers.insert(fd.inside_fd).second,
                     absl::StrCat("descriptor number ", fd.inside_fd, " given twice"));
  }
}

}  // namespace

absl::Status ValidateSpec(const SandboxSpec& spec) {
  ProblemList problems;
  problems.Unless(
      !spec.name.empty() && spec.name.size() <= kNameLengthMax &&
          spec.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos,
      "bad name");
  problems.Unless(!spec.argv.empty() && !spec.argv[0].empty(), "argv is empty");
  for (const std::string& argument : spec.argv)
    problems.Unless(!HasNul(argument), "an argument holds a zero byte");
  for (const auto& [name, value] : spec.environment) {
    problems.Unless(
        !name.empty() && name.find('=') == std::string::npos && !HasNul(name) && !HasNul(value),
        absl::StrCat("bad environment variable \"", name, "\""));
  }
  CheckPaths(spec, &problems);
  CheckFds(spec, &problems);
  problems.Unless(spec.limits.open_files_max >= 16 && spec.limits.file_bytes_max > 0 &&
                      spec.limits.processes_max > 0,
                  "a limit is too small");
  problems.Unless(!spec.limits.memory_bytes_max || *spec.limits.memory_bytes_max >= (1 << 24),
                  "the memory limit is below 16 MiB");
  problems.Unless(spec.nice >= 0 && spec.nice <= 19, "nice is not within 0 to 19");
  problems.Unless(!spec.uid_slot || *spec.uid_slot >= 0, "the uid slot is negative");
  return problems.Take(spec.name);
}

}  // namespace pike::sandbox
