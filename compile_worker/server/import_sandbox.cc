#include "compile_worker/server/import_sandbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/unique_fd.h"
#include "common/build/local_builder.h"

namespace pike::compile_worker {
namespace {

constexpr char kInsideDir[] = "/pike/inside";
constexpr int64_t kProcessesMax = 512;

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return ErrnoStatus(errno, "write candidate");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace

sandbox::SandboxSpec ImportSandboxSpec(const build::ToolchainPaths& paths,
                                       const std::string& share_dir, int64_t memory_bytes_max) {
  sandbox::SandboxSpec spec;
  spec.name = "import";
  spec.argv = {paths.python, "-s", "-P", absl::StrCat(kInsideDir, "/runner_main.py")};
  spec.environment = {{"PIKE_FRAME_FD", absl::StrCat(kFrameFd)},
                      {"CUDA_VISIBLE_DEVICES", ""},
                      {"OMP_NUM_THREADS", "1"},
                      {"PYTHONDONTWRITEBYTECODE", "1"},
                      {"PYTHONUNBUFFERED", "1"}};
  spec.read_only_binds.push_back({absl::StrCat(share_dir, "/inside"), kInsideDir});
  for (const std::string& folder : build::ToolchainFolders(paths, /*with_cuda=*/false))
    spec.read_only_binds.push_back({folder, folder});
  spec.limits.memory_bytes_max = memory_bytes_max;
  spec.limits.processes_max = kProcessesMax;
  return spec;
}

absl::Status PlaceCandidate(const sandbox::Sandbox& sandbox, absl::string_view source) {
  // Only our own code has run in there so far, so no link of a candidate's can lead astray.
  const std::string tmp = absl::StrCat("/proc/", sandbox.init_pid(), "/root/tmp");
  const UniqueFd tmp_fd(::open(tmp.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!tmp_fd.is_open())
    return ErrnoStatus(errno, absl::StrCat("open ", tmp));
  if (::mkdirat(tmp_fd.get(), "candidate", 0755) != 0)
    return ErrnoStatus(errno, "make candidate folder");
  const UniqueFd folder(
      ::openat(tmp_fd.get(), "candidate", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.is_open())
    return ErrnoStatus(errno, "open candidate folder");
  const UniqueFd file(::openat(folder.get(), "candidate.py",
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.is_open())
    return ErrnoStatus(errno, "make candidate file");
  const absl::Status written = WriteAll(file.get(), source);
  if (!written.ok())
    return written;
  if (::geteuid() != 0)
    return absl::OkStatus();  // the sandbox's user is ours
  const uid_t uid = sandbox.outside_uid();
  if (::fchown(file.get(), uid, uid) != 0 || ::fchown(folder.get(), uid, uid) != 0)
    return ErrnoStatus(errno, "give the candidate's file to its sandbox");
  return absl::OkStatus();
}

}  // namespace pike::compile_worker
