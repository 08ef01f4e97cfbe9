#include "common/service/stop_signal.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace pike::service {
namespace {

std::atomic<int> signal_fd{-1};
std::atomic<int> signal_count{0};

// Async-signal-safe: atomics, write and _exit only.
void OnSignal(int) {
  if (signal_count.fetch_add(1) > 0)
    ::_exit(1);
  const uint64_t one = 1;
  const int fd = signal_fd.load();
  if (fd >= 0 && ::write(fd, &one, sizeof(one)) < 0) {
  }
}

void Handle(int signal, void (*action)(int)) {
  struct sigaction wanted = {};
  wanted.sa_handler = action;
  sigemptyset(&wanted.sa_mask);
  wanted.sa_flags = SA_RESTART;
  PIKE_CHECK(::sigaction(signal, &wanted, nullptr) == 0);
}

}  // namespace

// Waits for the handler's event and requests the stop where that is allowed: outside a handler.
class StopSignal::Watcher {
 public:
  explicit Watcher(std::stop_source source) : event_(::eventfd(0, EFD_CLOEXEC)) {
    PIKE_CHECK(event_.is_open());
    PIKE_CHECK(signal_fd.exchange(event_.get()) == -1);
    thread_ = std::jthread([this, source](std::stop_token stop) mutable {
      uint64_t count = 0;
      while (::read(event_.get(), &count, sizeof(count)) != sizeof(count)) {
      }
      if (!stop.stop_requested())
        source.request_stop();
    });
  }
  ~Watcher() {
    signal_fd = -1;
    thread_.request_stop();
    const uint64_t one = 1;
    while (::write(event_.get(), &one, sizeof(one)) != sizeof(one)) {
    }
  }

 private:
  const UniqueFd event_;
  std::jthread thread_;
};

StopSignal::StopSignal() : watcher_(std::make_unique<Watcher>(source_)) {
  Handle(SIGTERM, OnSignal);
  Handle(SIGINT, OnSignal);
  Handle(SIGPIPE, SIG_IGN);
}

StopSignal::~StopSignal() {
  Handle(SIGTERM, SIG_DFL);
  Handle(SIGINT, SIG_DFL);
  signal_count = 0;
}

bool StopSignal::WaitUntil(std::chrono::steady_clock::time_point deadline) const {
  Mutex mutex;
  CondVar changed;
  std::stop_callback wake(source_.get_token(), [&mutex, &changed] {
    MutexLock lock(&mutex);
    changed.NotifyAll();
  });
  MutexLock lock(&mutex);
  while (!is_requested()) {
    if (!changed.WaitUntil(&mutex, deadline))
      return is_requested();
  }
  return true;
}

void StopSignal::Wait() const {
  while (!WaitUntil(std::chrono::steady_clock::now() + std::chrono::hours(1))) {
  }
}

}  // namespace pike::service
