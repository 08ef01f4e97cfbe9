#include "common/sandbox/sandbox.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/log.h"
#include "common/sandbox/process_tree.h"
#include "common/sandbox/sandbox_impl.h"

namespace pike::sandbox {
namespace {

constexpr std::chrono::seconds kMonitorGrace(2);
constexpr int kSignalStatusMin = 128;
constexpr int kSignalMax = 64;

// bubblewrap passes the end of its program on as its own exit status.
void SetEnd(int wait_status, Exit* exit) {
  if (WIFSIGNALED(wait_status)) {
    exit->signal = WTERMSIG(wait_status);
    return;
  }
  exit->status = WEXITSTATUS(wait_status);
  if (exit->status > kSignalStatusMin && exit->status <= kSignalStatusMin + kSignalMax) {
    exit->signal = exit->status - kSignalStatusMin;
    exit->status = 0;
  }
}

}  // namespace

std::string CapturedOutput::Text() const {
  if (bytes_left_out() <= 0)
    return head + tail;
  return absl::StrCat(head, "\n[... ", bytes_left_out(), " bytes left out ...]\n", tail);
}

std::string Exit::Text() const {
  if (is_stuck)
    return "hangs in the kernel";
  if (memory_limit_hit)
    return "memory limit";
  if (is_timed_out)
    return "timed out";
  if (is_killed)
    return "killed";
  if (signal != 0)
    return absl::StrCat("signal ", signal, " (", sigdescr_np(signal) ? sigdescr_np(signal) : "?",
                        ")");
  return absl::StrCat("exit status ", status);
}

std::optional<Exit> Sandbox::Impl::Ended() {
  MutexLock lock(&mutex_);
  return exit_;
}

std::optional<Exit> Sandbox::Impl::Wait(MonoTime deadline) {
  if (std::optional<Exit> ended = Ended())
    return ended;
  const std::optional<ProcessEnd> end = launched.monitor->Wait(deadline);
  if (!end)
    return std::nullopt;
  return Finish(*end);
}

Exit Sandbox::Impl::Kill(bool is_timed_out) {
  if (const std::optional<Exit> ended = Wait(MonoNow()))
    return *ended;
  {
    MutexLock lock(&mutex_);
    is_timed_out_ = is_timed_out_ || (is_timed_out && !is_kill_asked_);
    is_kill_asked_ = true;
  }
  // The kernel kills all of a pid namespace with its init; bubblewrap's monitor then ends.
  launched.tree->Kill();
  std::optional<ProcessEnd> end = launched.monitor->Wait(MonoNow() + kMonitorGrace);
  if (!end) {
    launched.monitor->Signal(SIGKILL);
    end = launched.monitor->Wait(MonoNow() + gone_timeout_);
  }
  return Finish(end);
}

// `end` is the monitor's; nothing if it does not come.
Exit Sandbox::Impl::Finish(const std::optional<ProcessEnd>& end) {
  MutexLock lock(&mutex_);
  if (exit_)
    return *exit_;
  const bool is_stuck = !launched.tree->WaitGone(MonoNow() + gone_timeout_) || !end;
  if (is_stuck) {
    LogError(absl::StrCat("processes of sandbox ", name,
                          " hang in the kernel and cannot be ended; their uid is not used again"));
    lease_.Lose();
  }
  launched.out->Finish();
  launched.err->Finish();
  const MemoryState memory = launched.tree->Finish();
  Exit exit{.is_killed = is_kill_asked_,
            .is_timed_out = is_timed_out_,
            .memory_limit_hit = memory.is_limit_hit,
            .is_stuck = is_stuck,
            .is_host_full = memory.is_host_full,
            .memory_peak_bytes = memory.peak_bytes,
            .wall_time = (end ? end->time : MonoNow()) - launched.start_time,
            .cpu_time = end ? end->cpu_time : std::chrono::nanoseconds(0)};
  if (is_kill_asked_ || !end)
    exit.signal = SIGKILL;
  else
    SetEnd(end->wait_status, &exit);
  exit_ = exit;
  return exit;
}

absl::Status Sandbox::StartFreezing() {
  return impl_->launched.tree->Freeze();
}

absl::Status Sandbox::WaitFrozen(MonoTime deadline) {
  if (!impl_->launched.tree->WaitFrozen(deadline))
    return absl::UnavailableError(absl::StrCat(name(), " does not stand still"));
  return absl::OkStatus();
}

void Sandbox::Thaw() {
  impl_->launched.tree->Thaw();
}

void Sandbox::KeepOn(const std::vector<int>& cores) {
  KeepTreeOn(impl_->launched.monitor->pid(), cores);
}

void Sandbox::KeepFirstThreadsOn(int core) {
  sandbox::KeepFirstThreadsOn(impl_->launched.monitor->pid(), core);
}

std::vector<pid_t> Sandbox::Processes() const {
  return ProcessTree(impl_->launched.init_pid);
}

absl::StatusOr<int> UidSlots::Take(std::optional<int> wanted) {
  MutexLock lock(&mutex_);
  int slot = wanted.value_or(0);
  while (!wanted && taken_.contains(slot))
    ++slot;
  if (!taken_.insert(slot).second)
    return absl::AlreadyExistsError(absl::StrCat("uid slot ", slot, " is in use"));
  return slot;
}

void UidSlots::Return(int slot) {
  MutexLock lock(&mutex_);
  taken_.erase(slot);
}

Sandbox::Sandbox(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sandbox::~Sandbox() {
  Kill();
}

std::optional<Exit> Sandbox::Wait(MonoTime deadline) {
  return impl_->Wait(deadline);
}

Exit Sandbox::WaitOrKill(MonoTime deadline) {
  if (std::optional<Exit> exit = impl_->Wait(deadline))
    return *exit;
  return impl_->Kill(/*is_timed_out=*/true);
}

Exit Sandbox::Kill() {
  return impl_->Kill(/*is_timed_out=*/false);
}

CapturedOutput Sandbox::Stdout() const {
  return impl_->launched.out->Snapshot();
}
CapturedOutput Sandbox::Stderr() const {
  return impl_->launched.err->Snapshot();
}
pid_t Sandbox::init_pid() const {
  return impl_->launched.init_pid;
}
uid_t Sandbox::outside_uid() const {
  return impl_->outside_uid;
}
const std::string& Sandbox::name() const {
  return impl_->name;
}

}  // namespace pike::sandbox
