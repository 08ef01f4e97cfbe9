#include "common/sandbox/warm_pool.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"
#include "common/base/unique_fd.h"
#include "common/sandbox/sandbox_host.h"

namespace pike::sandbox {
namespace {

constexpr int kLateFactorMax = 4;
constexpr size_t kMessageBytesMax = 2000;

// A started sandbox that has not said hello yet.
struct Starting {
  FrameChannel channel;
  std::unique_ptr<Sandbox> sandbox;
  MonoTime deadline;
};

}  // namespace

class WarmPool::Impl {
 public:
  Impl(SandboxHost* host, SpecFactory factory, const WarmPoolOptions& options)
      : host_(host),
        factory_(std::move(factory)),
        options_(options),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        back_off_(options.back_off_min) {
    PIKE_CHECK(wake_.is_open() && options.starting_max > 0);
    thread_ = std::jthread([this] { Loop(); });
  }

  ~Impl() {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    Wake();
  }

  absl::StatusOr<WarmSandbox> Take(MonoTime deadline, const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] {
      MutexLock lock(&mutex_);
      became_ready_.NotifyAll();
    });
    MutexLock lock(&mutex_);
    ++waiting_count_;
    Wake();
    absl::Status status;
    while (ready_.empty() && status.ok()) {
      if (stop.stop_requested())
        status = absl::CancelledError("stopped while waiting for a sandbox");
      else if (failing_since_ && MonoNow() - *failing_since_ >= options_.give_up_after)
        status = absl::UnavailableError(absl::StrCat("no warm sandbox: ", last_failure_));
      else if (!became_ready_.WaitUntil(&mutex_, deadline) && ready_.empty())
        status = absl::DeadlineExceededError(absl::StrCat(
            "no warm sandbox in time", last_failure_.empty() ? "" : ": ", last_failure_));
    }
    --waiting_count_;
    RETURN_IF_ERROR(status);
    WarmSandbox taken = std::move(ready_.front());
    ready_.pop_front();
    Wake();
    return taken;
  }

  void SetPaused(bool is_paused) {
    MutexLock lock(&mutex_);
    is_paused_ = is_paused;
    Wake();
  }

  size_t ready_count() const {
    MutexLock lock(&mutex_);
    return ready_.size();
  }

  size_t starting_count() const {
    MutexLock lock(&mutex_);
    return starting_count_;
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    const ssize_t written = write(wake_.get(), &one, sizeof one);
    PIKE_CHECK(written == sizeof one || errno == EAGAIN);
  }

  void Loop() {
    while (true) {
      DropDead();
      while (MayStart())
        StartOne();
      {
        MutexLock lock(&mutex_);
        if (is_stopping_)
          break;
      }
      WaitForEvent();
      Greet();
    }
  }

  bool MayStart() {
    MutexLock lock(&mutex_);
    const size_t wanted =
        is_paused_ ? waiting_count_ : std::max(options_.ready_target, waiting_count_);
    return !is_stopping_ && MonoNow() >= next_start_ && starting_.size() < options_.starting_max &&
           ready_.size() + starting_.size() < wanted;
  }

  void StartOne() {
    absl::StatusOr<Starting> started = TryStart();
    if (started.ok())
      starting_.push_back(*std::move(started));
    else
      Fail(started.status());
    CountStarting();
  }

  void CountStarting() {
    MutexLock lock(&mutex_);
    starting_count_ = starting_.size();
  }

  absl::StatusOr<Starting> TryStart() {
    ASSIGN_OR_RETURN(SandboxSpec spec, factory_());
    auto pair = FrameChannel::Pair();
    RETURN_IF_ERROR(pair.status());
    spec.fds.push_back({.host_fd = pair->second.get(), .inside_fd = options_.channel_fd});
    ASSIGN_OR_RETURN(std::unique_ptr<Sandbox> sandbox, host_->Start(spec));
    return Starting{.channel = std::move(pair->first),
                    .sandbox = std::move(sandbox),
                    .deadline = MonoNow() + options_.ready_timeout * late_factor_};
  }

  void Fail(const absl::Status& status) {
    LogWarning(absl::StrCat("warm pool: ", status.message()));
    const bool is_late = absl::IsDeadlineExceeded(status);
    if (is_late)
      late_factor_ = std::min(late_factor_ * 2, kLateFactorMax);
    MutexLock lock(&mutex_);
    if (!is_late && !failing_since_)
      failing_since_ = MonoNow();
    last_failure_ = std::string(status.message());
    next_start_ = MonoNow() + back_off_;
    back_off_ = std::min(back_off_ * 2, options_.back_off_max);
    became_ready_.NotifyAll();
  }

  // Polls the channels of all that start or wait, and the wake-up.
  void WaitForEvent() {
    std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    std::optional<MonoTime> next;
    for (const Starting& starting : starting_) {
      polled.push_back({.fd = starting.channel.fd(), .events = POLLIN, .revents = 0});
      next = std::min(next.value_or(starting.deadline), starting.deadline);
    }
    {
      MutexLock lock(&mutex_);
      for (const WarmSandbox& ready : ready_)
        polled.push_back({.fd = ready.channel.fd(), .events = POLLIN, .revents = 0});
      if (MonoNow() < next_start_)
        next = std::min(next.value_or(next_start_), next_start_);
    }
    int64_t wait_ms = -1;
    if (next) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - MonoNow());
      wait_ms = std::clamp<int64_t>(left.count(), 0, 60000);
    }
    // A descriptor whose sandbox is taken meanwhile only makes this return early.
    if (poll(polled.data(), polled.size(), static_cast<int>(wait_ms)) < 0)
      PIKE_CHECK(errno == EINTR);
    uint64_t count = 0;
    if (read(wake_.get(), &count, sizeof count) < 0)
      PIKE_CHECK(errno == EAGAIN || errno == EINTR);
  }

  // Takes the first frames of those that start.
  void Greet() {
    std::vector<Starting> still;
    for (Starting& starting : starting_) {
      absl::StatusOr<Frame> hello = starting.channel.Receive(MonoNow());
      if (hello.ok()) {
        late_factor_ = 1;
        MutexLock lock(&mutex_);
        failing_since_.reset();
        last_failure_.clear();
        back_off_ = options_.back_off_min;
        ready_.push_back({.channel = std::move(starting.channel),
                          .hello = *std::move(hello),
                          .sandbox = std::move(starting.sandbox)});
        became_ready_.NotifyAll();
      } else if (absl::IsDeadlineExceeded(hello.status()) && MonoNow() < starting.deadline) {
        still.push_back(std::move(starting));
      } else {
        Fail(Explain(hello.status(), starting.sandbox.get()));
      }
    }
    starting_ = std::move(still);
    CountStarting();
  }

  // Kills it, and says how it ended and what it wrote: DeadlineExceeded if it was only late.
  static absl::Status Explain(const absl::Status& status, Sandbox* sandbox) {
    const bool is_late = absl::IsDeadlineExceeded(status);
    // End of file comes before the end of the process: give it a moment to end by itself.
    const Exit exit =
        is_late ? sandbox->Kill() : sandbox->WaitOrKill(MonoNow() + std::chrono::seconds(2));
    const std::string output = EscapeUntrusted(sandbox->Stderr().Text(), kMessageBytesMax);
    const std::string text =
        absl::StrCat(sandbox->name(), " did not get ready: ", is_late ? "too slow" : exit.Text(),
                     output.empty() ? "" : ": ", output);
    return is_late ? absl::DeadlineExceededError(text) : absl::UnavailableError(text);
  }

  // Removes those that died or spoke while they waited: their channel is readable.
  void DropDead() {
    std::vector<WarmSandbox> dead;
    MutexLock lock(&mutex_);
    std::deque<WarmSandbox> alive;
    for (WarmSandbox& ready : ready_) {
      pollfd polled{.fd = ready.channel.fd(), .events = POLLIN, .revents = 0};
      const bool is_dead = poll(&polled, 1, 0) != 0;
      if (is_dead)
        dead.push_back(std::move(ready));
      else
        alive.push_back(std::move(ready));
    }
    ready_ = std::move(alive);
  }

  SandboxHost* const host_;
  const SpecFactory factory_;
  const WarmPoolOptions options_;
  const UniqueFd wake_;
  std::vector<Starting> starting_;  // only the thread's
  int late_factor_ = 1;             // only the thread's

  mutable Mutex mutex_;
  CondVar became_ready_;
  std::deque<WarmSandbox> ready_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t starting_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<MonoTime> failing_since_ ABSL_GUARDED_BY(mutex_);
  std::string last_failure_ ABSL_GUARDED_BY(mutex_);
  MonoTime next_start_ ABSL_GUARDED_BY(mutex_);
  std::chrono::milliseconds back_off_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: joined before the rest goes
};

WarmPool::WarmPool(SandboxHost* host, SpecFactory factory, const WarmPoolOptions& options)
    : impl_(std::make_unique<Impl>(host, std::move(factory), options)) {}
WarmPool::~WarmPool() = default;

absl::StatusOr<WarmSandbox> WarmPool::Take(MonoTime deadline, const std::stop_token& stop) {
  return impl_->Take(deadline, stop);
}
void WarmPool::Pause() {
  impl_->SetPaused(true);
}
void WarmPool::Resume() {
  impl_->SetPaused(false);
}
size_t WarmPool::ready_count() const {
  return impl_->ready_count();
}
size_t WarmPool::starting_count() const {
  return impl_->starting_count();
}

}  // namespace pike::sandbox
