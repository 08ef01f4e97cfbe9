#include "common/sandbox/output_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include "common/base/check.h"
#include "common/base/errno_status.h"
#include "common/base/mutex.h"

namespace pike::sandbox {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
// A pipe holds at most 1 MiB (/proc/sys/fs/pipe-max-size) unless somebody goes on writing.
constexpr size_t kFinishBytesMax = size_t{2} << 20;

class Stream : public OutputStream {
 public:
  Stream(UniqueFd pipe, size_t head_bytes_max, size_t tail_bytes_max)
      : head_bytes_max_(head_bytes_max), tail_bytes_max_(tail_bytes_max), pipe_(std::move(pipe)) {}

  CapturedOutput Snapshot() const override {
    MutexLock lock(&mutex_);
    CapturedOutput output{.head = head_, .tail = tail_, .bytes_total = bytes_total_};
    if (output.tail.size() > tail_bytes_max_)
      output.tail.erase(0, output.tail.size() - tail_bytes_max_);
    return output;
  }

  void Finish() override {
    MutexLock lock(&mutex_);
    const int64_t bytes_before = bytes_total_;
    while (bytes_total_ - bytes_before < static_cast<int64_t>(kFinishBytesMax)) {
      if (!ReadOnce())
        break;
    }
    pipe_.Reset();
  }

  // One read. False: nothing there now, or the end.
  bool ReadReady() {
    MutexLock lock(&mutex_);
    return ReadOnce();
  }

 private:
  bool ReadOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!pipe_.is_open())
      return false;
    char buffer[kReadBytes];
    const ssize_t count = read(pipe_.get(), buffer, sizeof buffer);
    if (count > 0) {
      Append(absl::string_view(buffer, static_cast<size_t>(count)));
      return true;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR))
      pipe_.Reset();  // this also takes it out of the epoll set
    return false;
  }

  void Append(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bytes_total_ += static_cast<int64_t>(bytes.size());
    const size_t to_head = std::min(bytes.size(), head_bytes_max_ - head_.size());
    head_.append(bytes.data(), to_head);
    bytes.remove_prefix(to_head);
    tail_.append(bytes.data(), bytes.size());
    if (tail_.size() > 2 * tail_bytes_max_ + kReadBytes)
      tail_.erase(0, tail_.size() - tail_bytes_max_);
  }

  const size_t head_bytes_max_;
  const size_t tail_bytes_max_;
  mutable Mutex mutex_;
  UniqueFd pipe_ ABSL_GUARDED_BY(mutex_);
  std::string head_ ABSL_GUARDED_BY(mutex_);
  std::string tail_ ABSL_GUARDED_BY(mutex_);  // may be longer than tail_bytes_max_
  int64_t bytes_total_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

class OutputReader::Impl {
 public:
  Impl() : epoll_(epoll_create1(EPOLL_CLOEXEC)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    PIKE_CHECK(epoll_.is_open() && stop_.is_open());
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kStopId;
    PIKE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event) == 0);
    thread_ = std::jthread([this] { Loop(); });
  }

  ~Impl() {
    const uint64_t one = 1;
    PIKE_CHECK(write(stop_.get(), &one, sizeof one) == sizeof one);
  }

  absl::StatusOr<std::shared_ptr<OutputStream>> Add(UniqueFd pipe, size_t head_bytes_max,
                                                    size_t tail_bytes_max) {
    const int fd = pipe.get();
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
      return ErrnoStatus(errno, "output pipe");
    auto stream = std::make_shared<Stream>(std::move(pipe), head_bytes_max, tail_bytes_max);
    MutexLock lock(&mutex_);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = ++last_id_;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return ErrnoStatus(errno, "epoll_ctl");
    streams_[last_id_] = stream;
    return std::shared_ptr<OutputStream>(stream);
  }

 private:
  static constexpr uint64_t kStopId = 0;

  void Loop() {
    while (true) {
      epoll_event events[16];
      const int count = epoll_wait(epoll_.get(), events, 16, -1);
      for (int i = 0; i < count; ++i) {
        if (events[i].data.u64 == kStopId)
          return;
        if (std::shared_ptr<Stream> stream = Find(events[i].data.u64))
          stream->ReadReady();
      }
    }
  }

  // Nothing if the stream's owner is gone.
  std::shared_ptr<Stream> Find(uint64_t id) {
    MutexLock lock(&mutex_);
    std::erase_if(streams_, [](const auto& entry) { return entry.second.expired(); });
    const auto found = streams_.find(id);
    return found == streams_.end() ? nullptr : found->second.lock();
  }

  const UniqueFd epoll_;
  const UniqueFd stop_;
  Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = kStopId;
  std::map<uint64_t, std::weak_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: joined before the rest goes
};

OutputReader::OutputReader() : impl_(std::make_unique<Impl>()) {}
OutputReader::~OutputReader() = default;

absl::StatusOr<std::shared_ptr<OutputStream>> OutputReader::Add(UniqueFd pipe,
                                                                size_t head_bytes_max,
                                                                size_t tail_bytes_max) {
  return impl_->Add(std::move(pipe), head_bytes_max, tail_bytes_max);
}

}  // namespace pike::sandbox
