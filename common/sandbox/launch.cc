#include "common/sandbox/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <absl/cleanup/cleanup.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "common/base/errno_status.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"
#include "common/base/unique_fd.h"
#include "common/sandbox/pidfd.h"

namespace pike::sandbox {
namespace {

constexpr std::chrono::seconds kSetupTimeout(30);
constexpr std::chrono::seconds kAbortGrace(5);
constexpr size_t kInfoBytesMax = 4096;
constexpr size_t kMessageBytesMax = 1000;
// The kernel's out-of-memory killer takes a sandbox before a worker.
constexpr int kOomScore = 500;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0)
    return ErrnoStatus(errno, "pipe");
  return Pipe{.read_end = UniqueFd(ends[0]), .write_end = UniqueFd(ends[1])};
}

// A descriptor from which `bytes` can be read.
absl::StatusOr<UniqueFd> ContentFd(absl::string_view bytes) {
  UniqueFd fd(memfd_create("pike-file", MFD_CLOEXEC));
  if (!fd.is_open())
    return ErrnoStatus(errno, "memfd_create");
  while (!bytes.empty()) {
    const ssize_t count = write(fd.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return ErrnoStatus(errno, "write to a memfd");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  if (lseek(fd.get(), 0, SEEK_SET) != 0)
    return ErrnoStatus(errno, "seek in a memfd");
  return fd;
}

// Reads from `fd` until end of file (what comes is short and ours), or `deadline`.
absl::StatusOr<std::string> ReadToEnd(int fd, MonoTime deadline) {
  std::string text;
  while (text.size() < kInfoBytesMax) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MonoNow());
    pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready == 0)
      return absl::DeadlineExceededError("the set-up took too long");
    char buffer[512];
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      break;
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

absl::Status SetLimit(pid_t pid, __rlimit_resource resource, int64_t value) {
  const rlimit limit{.rlim_cur = static_cast<rlim_t>(value),
                     .rlim_max = static_cast<rlim_t>(value)};
  if (prlimit(pid, resource, &limit, nullptr) != 0)
    return ErrnoStatus(errno, "prlimit");
  return absl::OkStatus();
}

// Limits of bubblewrap's monitor while it waits at the first gate: all that follows inherits them.
absl::Status SetProcessLimits(pid_t pid, const SandboxSpec& spec, bool is_root) {
  RETURN_IF_ERROR(SetLimit(pid, RLIMIT_CORE, 0));
  RETURN_IF_ERROR(SetLimit(pid, RLIMIT_FSIZE, spec.limits.file_bytes_max));
  rlimit files{};
  if (prlimit(pid, RLIMIT_NOFILE, nullptr, &files) != 0)
    return ErrnoStatus(errno, "prlimit");
  const auto files_max = static_cast<int64_t>(files.rlim_max);
  RETURN_IF_ERROR(SetLimit(pid, RLIMIT_NOFILE,
                           is_root || files_max < 0
                               ? spec.limits.open_files_max
                               : std::min(spec.limits.open_files_max, files_max)));
  if (is_root)
    RETURN_IF_ERROR(SetLimit(pid, RLIMIT_NPROC, spec.limits.processes_max));
  if (spec.nice != 0 && setpriority(PRIO_PROCESS, static_cast<id_t>(pid), spec.nice) != 0)
    return ErrnoStatus(errno, "setpriority");
  if (!spec.cpus.empty()) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (const int cpu : spec.cpus)
      CPU_SET(static_cast<size_t>(cpu), &cpus);
    if (sched_setaffinity(pid, sizeof cpus, &cpus) != 0)
      return ErrnoStatus(errno, "sched_setaffinity");
  }
  const UniqueFd score(
      open(absl::StrCat("/proc/", pid, "/oom_score_adj").c_str(), O_WRONLY | O_CLOEXEC));
  const std::string value = absl::StrCat(kOomScore);
  if (score.is_open() && write(score.get(), value.data(), value.size()) < 0)
    return ErrnoStatus(errno, "oom_score_adj");
  return absl::OkStatus();
}

absl::Status GiveAway(const SandboxSpec& spec, uid_t uid) {
  for (const Bind& bind : spec.writable_binds) {
    if (lchown(bind.host_path.c_str(), uid, uid) != 0)
      return ErrnoStatus(errno, absl::StrCat("chown ", bind.host_path));
  }
  return absl::OkStatus();
}

// The pid in what bubblewrap says about itself, { "child-pid": 123, ... }.
absl::StatusOr<pid_t> ParseInitPid(absl::string_view text) {
  constexpr absl::string_view kKey = "\"child-pid\":";
  const size_t start = text.find(kKey);
  pid_t pid = 0;
  if (start == absl::string_view::npos)
    return absl::InternalError("bubblewrap reported no child");
  const absl::string_view rest = text.substr(start + kKey.size());
  if (!absl::SimpleAtoi(rest.substr(0, rest.find_first_of(",}\n")), &pid) || pid <= 1)
    return absl::InternalError("bubblewrap reported nonsense");
  return pid;
}

// One start. Its steps are called in the order of their definition.
class Launcher {
 public:
  Launcher(const Workshop& workshop, const SandboxSpec& spec, uid_t uid)
      : workshop_(workshop), spec_(spec), uid_(uid), deadline_(MonoNow() + kSetupTimeout) {}

  ~Launcher() {
    if (monitor_ != nullptr)
      Abort();
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  absl::Status Prepare() {
    if (workshop_.layout.is_root)
      RETURN_IF_ERROR(GiveAway(spec_, uid_));
    ASSIGN_OR_RETURN(limit_, workshop_.limiter->NewLimit(spec_.limits));
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return ErrnoStatus(errno, "socketpair");
    gate_ = UniqueFd(ends[0]);
    theirs_.emplace_back(0, UniqueFd(ends[1]));
    // Not a pipe: bubblewrap's monitor would die of SIGPIPE if we were gone, and leave an init
    // behind that waits for it for ever.
    ASSIGN_OR_RETURN(info_, ContentFd(""));
    RETURN_IF_ERROR(AddPipe(kReadyFd, &ready_));
    UniqueFd out;
    UniqueFd err;
    RETURN_IF_ERROR(AddPipe(1, &out));
    RETURN_IF_ERROR(AddPipe(2, &err));
    ASSIGN_OR_RETURN(out_, AddStream(std::move(out)));
    ASSIGN_OR_RETURN(err_, AddStream(std::move(err)));
    return absl::OkStatus();
  }

  absl::Status Spawn() {
    const BwrapCommand command = MakeBwrapCommand(spec_, workshop_.layout, uid_);
    ASSIGN_OR_RETURN(UniqueFd arguments, ContentFd(command.arguments));
    theirs_.emplace_back(kArgumentsFd, std::move(arguments));
    for (size_t i = 0; i < command.files.size(); ++i) {
      ASSIGN_OR_RETURN(UniqueFd content, ContentFd(command.files[i]));
      theirs_.emplace_back(kFirstFileFd + static_cast<int>(i), std::move(content));
    }
    ProcessSpec process{.argv = command.argv,
                        .environment = std::vector<std::string>{"PATH=/usr/bin:/bin"},
                        .fds = spec_.fds};
    process.fds.push_back({.host_fd = info_.get(), .inside_fd = kInfoFd});
    for (const auto& [number, fd] : theirs_)
      process.fds.push_back({.host_fd = fd.get(), .inside_fd = number});
    ASSIGN_OR_RETURN(monitor_, workshop_.spawner->Spawn(process));
    theirs_.clear();
    return absl::OkStatus();
  }

  absl::Status SetLimits() {
    RETURN_IF_ERROR(limit_->Add(monitor_->pid()));
    return SetProcessLimits(monitor_->pid(), spec_, workshop_.layout.is_root);
  }

  // Bubblewrap sets up; afterwards only the second gate holds the program.
  absl::Status SetUp() {
    RETURN_IF_ERROR(OpenGate());
    // To the end of file: then bubblewrap's monitor and init have closed their copies too, which
    // init does right before it binds its life to the monitor's.
    ASSIGN_OR_RETURN(const std::string ready, ReadToEnd(ready_.get(), deadline_));
    if (ready != "ok\n")
      return absl::InternalError("bubblewrap failed");
    char info[kInfoBytesMax];
    const ssize_t size = pread(info_.get(), info, sizeof info, 0);
    if (size < 0)
      return ErrnoStatus(errno, "read bubblewrap's info");
    ASSIGN_OR_RETURN(init_pid_, ParseInitPid(absl::string_view(info, static_cast<size_t>(size))));
    UniqueFd init = OpenPidfd(init_pid_);
    if (!init.is_open())
      return ErrnoStatus(errno, "pidfd_open");
    tree_ = std::make_shared<WatchedTree>(std::move(limit_), std::move(init));
    return absl::OkStatus();
  }

  absl::StatusOr<Launched> LetGo() {
    RETURN_IF_ERROR(OpenGate());
    workshop_.watch->Add(tree_);
    return Launched{.monitor = std::exchange(monitor_, nullptr),
                    .init_pid = init_pid_,
                    .tree = std::move(tree_),
                    .out = std::move(out_),
                    .err = std::move(err_),
                    .start_time = MonoNow()};
  }

  // `status` with what bubblewrap (or the gate) said about it; ends what there is.
  absl::Status Explain(const absl::Status& status) {
    if (monitor_ != nullptr)
      Abort();
    std::string text;
    if (err_ != nullptr) {
      err_->Finish();
      text = EscapeLine(err_->Snapshot().head.substr(0, kMessageBytesMax));
    }
    return absl::Status(status.code(),
                        absl::StrCat("start sandbox ", spec_.name, ": ", status.message(),
                                     text.empty() ? "" : ": ", text));
  }

 private:
  absl::Status AddPipe(int number, UniqueFd* our_end) {
    ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
    *our_end = std::move(pipe.read_end);
    theirs_.emplace_back(number, std::move(pipe.write_end));
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<OutputStream>> AddStream(UniqueFd pipe) {
    return workshop_.reader->Add(std::move(pipe), spec_.output_head_bytes_max,
                                 spec_.output_tail_bytes_max);
  }

  absl::Status OpenGate() const {
    if (send(gate_.get(), "\n", 1, MSG_NOSIGNAL) != 1)
      return ErrnoStatus(errno, "the gate is gone");
    return absl::OkStatus();
  }

  void Abort() {
    // At a shut gate it ends by itself. Better than killing the monitor at once, which could leave
    // behind an init that is not yet bound to it.
    gate_.Reset();
    if (tree_ != nullptr)
      tree_->Kill();
    if (!monitor_->Wait(MonoNow() + kAbortGrace)) {
      monitor_->Signal(SIGKILL);
      monitor_->Wait(MonoNow() + kAbortGrace);
    }
    if (tree_ != nullptr) {
      tree_->WaitGone(MonoNow() + kAbortGrace);
      tree_->Finish();
    }
    monitor_ = nullptr;
  }

  const Workshop& workshop_;
  const SandboxSpec& spec_;
  const uid_t uid_;
  const MonoTime deadline_;
  std::unique_ptr<TreeLimit> limit_;
  UniqueFd gate_;
  UniqueFd info_;
  UniqueFd ready_;
  std::vector<std::pair<int, UniqueFd>> theirs_;
  std::shared_ptr<OutputStream> out_;
  std::shared_ptr<OutputStream> err_;
  std::shared_ptr<Child> monitor_;
  pid_t init_pid_ = 0;
  std::shared_ptr<WatchedTree> tree_;
};

}  // namespace

absl::StatusOr<Launched> Launch(const Workshop& workshop, const SandboxSpec& spec, uid_t uid) {
  Launcher launcher(workshop, spec, uid);
  absl::Status status = launcher.Prepare();
  if (status.ok())
    status = launcher.Spawn();
  if (status.ok())
    status = launcher.SetLimits();
  if (status.ok())
    status = launcher.SetUp();
  if (!status.ok())
    return launcher.Explain(status);
  absl::StatusOr<Launched> launched = launcher.LetGo();
  if (!launched.ok())
    return launcher.Explain(launched.status());
  return launched;
}

}  // namespace pike::sandbox
