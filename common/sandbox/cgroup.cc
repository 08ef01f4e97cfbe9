#include "common/sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include "common/base/errno_status.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/sandbox/pidfd.h"

namespace pike::sandbox {
namespace {

constexpr char kFolderPrefix[] = "pike-sandboxes-";
constexpr size_t kFileBytesMax = size_t{1} << 20;
// Processes may fork while they are being killed.
constexpr int kKillRounds = 5;
// Another process may take our new folder for a leftover before we have locked it.
constexpr int kCreateAttempts = 5;

bool IsOneOf(absl::string_view controller, absl::string_view list, char separator) {
  for (const absl::string_view part : absl::StrSplit(list, separator, absl::SkipEmpty())) {
    if (part == controller)
      return true;
  }
  return false;
}

// Our cgroup's path in the v1 hierarchy of `controller`, or in v2 ("").
std::string OwnPath(absl::string_view own_cgroups, absl::string_view controller) {
  for (const absl::string_view line : absl::StrSplit(own_cgroups, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3)
      continue;
    const bool is_it = controller.empty() ? parts[0] == "0" && parts[1].empty()
                                          : IsOneOf(controller, parts[1], ',');
    if (is_it)
      return parts[2] == "/" ? std::string() : std::string(parts[2]);
  }
  return "";
}

std::vector<std::string> SubFolders(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (dir == nullptr)
    return names;
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own stream
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
      names.emplace_back(entry->d_name);
  }
  return names;
}

// The folder's lock, or nothing if another process holds it.
UniqueFd TryLock(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.is_open() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    fd.Reset();
  return fd;
}

// Kills the processes of a cgroup and waits until they are gone.
void KillAll(const std::string& folder) {
  for (int round = 0; round < kKillRounds; ++round) {
    const absl::StatusOr<std::string> text = ReadFile(folder + "/cgroup.procs", kFileBytesMax);
    if (!text.ok())
      return;
    std::vector<UniqueFd> dying;
    for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
      pid_t pid = 0;
      if (!absl::SimpleAtoi(line, &pid) || pid <= 1)
        continue;
      UniqueFd pidfd = OpenPidfd(pid);
      if (pidfd.is_open() && SignalPidfd(pidfd.get(), SIGKILL))
        dying.push_back(std::move(pidfd));
    }
    if (dying.empty())
      return;
    for (const UniqueFd& pidfd : dying) {
      pollfd polled{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
      if (poll(&polled, 1, 1000) < 0 && errno != EINTR)
        return;
    }
  }
}

void RemoveLeftovers(const std::string& parent) {
  for (const std::string& name : SubFolders(parent)) {
    if (!absl::StartsWith(name, kFolderPrefix))
      continue;
    const std::string folder = absl::StrCat(parent, "/", name);
    const UniqueFd lock = TryLock(folder);
    if (!lock.is_open())
      continue;
    for (const std::string& child : SubFolders(folder)) {
      KillAll(absl::StrCat(folder, "/", child));
      rmdir(absl::StrCat(folder, "/", child).c_str());
    }
    // Fails while a zombie is in it, say, below an init that does not reap: then it stays.
    rmdir(folder.c_str());
  }
}

std::string NewFolderName() {
  std::random_device random;
  return absl::StrCat(kFolderPrefix, getpid(), "-", absl::Hex(random(), absl::kZeroPad8));
}

// Whether a child of this cgroup of v2 can have the controllers. One with processes of its own
// cannot turn them on for its children: they must be on already.
bool OffersControllers(const std::string& folder, const std::vector<std::string>& controllers) {
  const absl::StatusOr<std::string> enabled =
      ReadFile(folder + "/cgroup.subtree_control", kFileBytesMax);
  if (!enabled.ok() || access((folder + "/cgroup.procs").c_str(), W_OK) != 0)
    return false;
  return std::all_of(controllers.begin(), controllers.end(), [&](const std::string& controller) {
    return IsOneOf(controller, absl::StripAsciiWhitespace(*enabled), ' ');
  });
}

// Whether a child of `folder` would have the controllers; turns them on where it must be asked for.
absl::Status EnableControllers(const std::string& folder, bool is_v2,
                               const std::vector<std::string>& controllers) {
  for (const std::string& controller : controllers) {
    if (is_v2) {
      RETURN_IF_ERROR(
          WriteCgroupFile(folder + "/cgroup.subtree_control", absl::StrCat("+", controller)));
      continue;
    }
    const char* file = controller == "memory" ? "/memory.limit_in_bytes" : "/pids.max";
    if (access((folder + file).c_str(), W_OK) != 0)
      return ErrnoStatus(errno, folder + file);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<CgroupParent> CgroupParents(absl::string_view controller, absl::string_view mounts,
                                        absl::string_view own_cgroups) {
  std::vector<CgroupParent> parents;
  std::vector<CgroupParent> parents_v1;
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() < 4)
      continue;
    const std::string mount(fields[1]);
    if (fields[2] == "cgroup2") {
      std::string path = OwnPath(own_cgroups, "");
      while (!path.empty()) {
        parents.push_back({.folder = mount + path, .is_v2 = true});
        path.erase(path.rfind('/'));
      }
      parents.push_back({.folder = mount, .is_v2 = true});
    } else if (fields[2] == "cgroup" && IsOneOf(controller, fields[3], ',')) {
      const std::string path = OwnPath(own_cgroups, controller);
      if (!path.empty())
        parents_v1.push_back({.folder = mount + path, .is_v2 = false});
      parents_v1.push_back({.folder = mount, .is_v2 = false});
    }
  }
  parents.insert(parents.end(), parents_v1.begin(), parents_v1.end());
  return parents;
}

absl::StatusOr<std::unique_ptr<CgroupFolder>> CgroupFolder::Create(
    const std::vector<CgroupParent>& parents, const std::vector<std::string>& controllers) {
  for (const CgroupParent& parent : parents) {
    if (parent.is_v2 && !OffersControllers(parent.folder, controllers))
      continue;
    RemoveLeftovers(parent.folder);
    for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
      const std::string folder = absl::StrCat(parent.folder, "/", NewFolderName());
      if (mkdir(folder.c_str(), 0755) != 0)
        break;
      UniqueFd lock = TryLock(folder);
      if (lock.is_open() && EnableControllers(folder, parent.is_v2, controllers).ok()) {
        return std::unique_ptr<CgroupFolder>(
            new CgroupFolder(folder, parent.is_v2, controllers, std::move(lock)));
      }
      rmdir(folder.c_str());
    }
  }
  return absl::NotFoundError("no writable cgroup");
}

CgroupFolder::~CgroupFolder() {
  {
    MutexLock lock(&mutex_);
    for (const std::string& folder : busy_) {
      KillAll(folder);
      rmdir(folder.c_str());
    }
  }
  if (rmdir(folder_.c_str()) != 0)
    LogWarning(absl::StrCat("cannot remove the cgroup ", folder_));
}

absl::StatusOr<std::string> CgroupFolder::Make() {
  MutexLock lock(&mutex_);
  std::erase_if(busy_, [](const std::string& folder) { return rmdir(folder.c_str()) == 0; });
  std::string folder = absl::StrCat(folder_, "/", ++made_count_);
  if (mkdir(folder.c_str(), 0755) != 0)
    return ErrnoStatus(errno, absl::StrCat("make cgroup ", folder));
  return folder;
}

void CgroupFolder::Remove(const std::string& folder) {
  MutexLock lock(&mutex_);
  if (rmdir(folder.c_str()) != 0 && errno != ENOENT)
    busy_.push_back(folder);
}

bool CgroupFolder::Has(absl::string_view controller) const {
  return std::find(controllers_.begin(), controllers_.end(), controller) != controllers_.end();
}

absl::Status WriteCgroupFile(const std::string& path, absl::string_view text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.is_open() ||
      write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return ErrnoStatus(errno, absl::StrCat("write ", path));
  return absl::OkStatus();
}

std::optional<int64_t> ReadCgroupNumber(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kFileBytesMax);
  int64_t number = 0;
  if (!text.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &number))
    return std::nullopt;
  return number;
}

std::optional<int64_t> ReadCgroupField(const std::string& path, absl::string_view key) {
  const absl::StatusOr<std::string> text = ReadFile(path, kFileBytesMax);
  if (!text.ok())
    return std::nullopt;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    int64_t number = 0;
    if (absl::ConsumePrefix(&line, key) && absl::ConsumePrefix(&line, " ") &&
        absl::SimpleAtoi(line, &number))
      return number;
  }
  return std::nullopt;
}

}  // namespace pike::sandbox
