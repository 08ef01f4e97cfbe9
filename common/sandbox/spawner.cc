#include "common/sandbox/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "common/base/errno_status.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/sandbox/pidfd.h"

namespace pike::sandbox {
namespace {

// Our copies are kept above every number inside, so that one dup2 cannot overwrite the source of
// another.
constexpr int kStagingFdMin = 256;

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings)
    pointers.push_back(const_cast<char*>(text.c_str()));  // NOLINT: posix_spawn's signature
  pointers.push_back(nullptr);
  return pointers;
}

std::chrono::nanoseconds CpuTime(const rusage& usage) {
  const auto to_ns = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return to_ns(usage.ru_utime) + to_ns(usage.ru_stime);
}

// RAII for the two objects of posix_spawn.
struct SpawnFileActions {
  SpawnFileActions() { PIKE_CHECK(posix_spawn_file_actions_init(&value) == 0); }
  ~SpawnFileActions() { posix_spawn_file_actions_destroy(&value); }
  SpawnFileActions(const SpawnFileActions&) = delete;
  SpawnFileActions& operator=(const SpawnFileActions&) = delete;
  posix_spawn_file_actions_t value;
};

struct SpawnAttributes {
  SpawnAttributes() {
    PIKE_CHECK(posix_spawnattr_init(&value) == 0);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&value, &none);
    posix_spawnattr_setsigdefault(&value, &all);
    posix_spawnattr_setpgroup(&value, 0);
    posix_spawnattr_setflags(
        &value, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&value); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  posix_spawnattr_t value;
};

// The descriptor table of the child: the listed ones, standard streams by default, nothing else.
absl::Status AddFileActions(const std::vector<PassedFd>& fds, std::vector<UniqueFd>* staging,
                            posix_spawn_file_actions_t* actions) {
  std::map<int, int> by_number;
  for (const PassedFd& fd : fds) {
    UniqueFd copy(fcntl(fd.host_fd, F_DUPFD_CLOEXEC, kStagingFdMin));
    if (!copy.is_open())
      return ErrnoStatus(errno, absl::StrCat("duplicate descriptor ", fd.host_fd));
    by_number[fd.inside_fd] = copy.get();
    staging->push_back(std::move(copy));
  }
  const int number_max = std::max(2, by_number.empty() ? 0 : by_number.rbegin()->first);
  PIKE_CHECK(number_max < kStagingFdMin);
  for (int number = 0; number <= number_max; ++number) {
    const auto found = by_number.find(number);
    if (found != by_number.end())
      posix_spawn_file_actions_adddup2(actions, found->second, number);
    else if (number == 0)
      posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    else if (number > 2)
      posix_spawn_file_actions_addclose(actions, number);
  }
  posix_spawn_file_actions_addclosefrom_np(actions, number_max + 1);
  return absl::OkStatus();
}

class ChildImpl : public Child {
 public:
  ChildImpl(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid() const override { return pid_; }
  int pidfd() const { return pidfd_.get(); }

  std::optional<ProcessEnd> Wait(MonoTime deadline) override {
    MutexLock lock(&mutex_);
    while (!end_) {
      if (!ended_.WaitUntil(&mutex_, deadline))
        break;
    }
    return end_;
  }

  void Signal(int signal) override {
    MutexLock lock(&mutex_);
    if (!end_)
      ::kill(pid_, signal);
  }

  // Called by the spawner's thread once pidfd is readable (or to wait for a killed child).
  void Reap() {
    MutexLock lock(&mutex_);
    int wait_status = 0;
    rusage usage{};
    pid_t reaped = 0;
    do {
      reaped = wait4(pid_, &wait_status, 0, &usage);
    } while (reaped < 0 && errno == EINTR);
    if (reaped != pid_)  // somebody else took it: an end without details
      wait_status = 0;
    end_ = ProcessEnd{.wait_status = wait_status, .cpu_time = CpuTime(usage), .time = MonoNow()};
    ended_.NotifyAll();
  }

 private:
  const pid_t pid_;
  const UniqueFd pidfd_;
  Mutex mutex_;
  CondVar ended_;
  std::optional<ProcessEnd> end_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::shared_ptr<ChildImpl>> SpawnHere(const ProcessSpec& spec) {
  std::vector<UniqueFd> staging;
  SpawnFileActions actions;
  const SpawnAttributes attributes;
  RETURN_IF_ERROR(AddFileActions(spec.fds, &staging, &actions.value));
  const std::vector<char*> argv = Pointers(spec.argv);
  std::vector<char*> environment;
  if (spec.environment)
    environment = Pointers(*spec.environment);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, spec.argv[0].c_str(), &actions.value, &attributes.value,
                                argv.data(), spec.environment ? environment.data() : environ);
  if (error != 0)
    return ErrnoStatus(error, absl::StrCat("start ", spec.argv[0]));
  UniqueFd pidfd = OpenPidfd(pid);
  if (!pidfd.is_open()) {
    const absl::Status status = ErrnoStatus(errno, "pidfd_open");
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  return std::make_shared<ChildImpl>(pid, std::move(pidfd));
}

}  // namespace

class Spawner::Impl {
 public:
  Impl() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    PIKE_CHECK(wake_.is_open());
    thread_ = std::jthread([this] { Loop(); });
  }

  ~Impl() {
    {
      MutexLock lock(&mutex_);
      is_stopping_ = true;
    }
    Wake();
  }

  absl::StatusOr<std::shared_ptr<Child>> Spawn(const ProcessSpec& spec) {
    if (spec.argv.empty())
      return absl::InvalidArgumentError("empty argv");
    Request request{.spec = &spec, .child = nullptr, .status = {}, .is_done = false};
    MutexLock lock(&mutex_);
    if (is_stopping_)
      return absl::UnavailableError("the spawner is stopping");
    requests_.push_back(&request);
    Wake();
    while (!request.is_done)
      answered_.Wait(&mutex_);
    if (!request.status.ok())
      return request.status;
    return std::shared_ptr<Child>(request.child);
  }

 private:
  // Lives on the stack of the thread that waits for the answer.
  struct Request {
    const ProcessSpec* spec;
    std::shared_ptr<ChildImpl> child;
    absl::Status status;
    bool is_done;
  };

  void Wake() {
    const uint64_t one = 1;
    const ssize_t written = write(wake_.get(), &one, sizeof one);
    PIKE_CHECK(written == sizeof one || errno == EAGAIN);
  }

  void Loop() {
    while (true) {
      const bool is_last = Answer();
      if (is_last)
        break;
      std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
      for (const std::shared_ptr<ChildImpl>& child : children_)
        polled.push_back({.fd = child->pidfd(), .events = POLLIN, .revents = 0});
      if (poll(polled.data(), polled.size(), -1) < 0)
        continue;  // EINTR
      uint64_t count = 0;
      if (polled[0].revents != 0 && read(wake_.get(), &count, sizeof count) < 0)
        PIKE_CHECK(errno == EAGAIN || errno == EINTR);
      std::vector<std::shared_ptr<ChildImpl>> alive;
      for (size_t i = 0; i < children_.size(); ++i) {
        if (polled[i + 1].revents != 0)
          children_[i]->Reap();
        else
          alive.push_back(std::move(children_[i]));
      }
      children_ = std::move(alive);
    }
    for (const std::shared_ptr<ChildImpl>& child : children_) {
      child->Signal(SIGKILL);
      child->Reap();
    }
  }

  // Carries out the waiting requests. True: stop.
  bool Answer() {
    while (true) {
      Request* request = nullptr;
      {
        MutexLock lock(&mutex_);
        if (requests_.empty())
          return is_stopping_;
        request = requests_.front();
        requests_.pop_front();
      }
      absl::StatusOr<std::shared_ptr<ChildImpl>> child = SpawnHere(*request->spec);
      if (child.ok())
        children_.push_back(*child);
      MutexLock lock(&mutex_);
      if (child.ok())
        request->child = *std::move(child);
      else
        request->status = child.status();
      request->is_done = true;
      answered_.NotifyAll();
    }
  }

  const UniqueFd wake_;
  Mutex mutex_;
  CondVar answered_;
  std::deque<Request*> requests_ ABSL_GUARDED_BY(mutex_);
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<ChildImpl>> children_;  // only the thread's
  std::jthread thread_;                               // last: joined before the rest goes
};

Spawner::Spawner() : impl_(std::make_unique<Impl>()) {}
Spawner::~Spawner() = default;

absl::StatusOr<std::shared_ptr<Child>> Spawner::Spawn(const ProcessSpec& spec) {
  return impl_->Spawn(spec);
}

}  // namespace pike::sandbox
