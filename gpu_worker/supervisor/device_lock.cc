#include "gpu_worker/supervisor/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/status_macros.h"
#include "common/service/runtime_dir.h"

namespace pike::gpu {
namespace {

// How often the lock of another process is tried for.
constexpr std::chrono::milliseconds kRetryEvery{2};

}  // namespace

std::string LockFileName(std::string device_id) {
  for (char& c : device_id) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!is_plain)
      c = '_';
  }
  return device_id;
}

DeviceLock::Hold::Hold(Hold&& other) noexcept
    : lock_(std::exchange(other.lock_, nullptr)), since_(other.since_) {}

DeviceLock::Hold::~Hold() {
  if (lock_ != nullptr)
    lock_->Release();
}

absl::StatusOr<std::unique_ptr<DeviceLock>> DeviceLock::Open(const std::string& runtime_dir,
                                                             const std::string& device_id) {
  const std::string folder = runtime_dir + "/locks";
  RETURN_IF_ERROR(service::MakeFolders(folder, 0700));
  const std::string path = absl::StrCat(folder, "/", LockFileName(device_id), ".lock");
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open())
    return ErrnoStatus(errno, path);
  return std::unique_ptr<DeviceLock>(new DeviceLock(std::move(file)));
}

absl::StatusOr<DeviceLock::Hold> DeviceLock::Acquire(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(&mutex_);
    changed_.NotifyAll();
  });
  MutexLock lock(&mutex_);
  const uint64_t ticket = next_ticket_++;
  while (now_serving_ != ticket && !stop.stop_requested())
    changed_.Wait(&mutex_);
  if (now_serving_ != ticket) {
    given_up_.insert(ticket);
    return absl::CancelledError("stopped while waiting for the device");
  }
  while (!stop.stop_requested()) {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0)
      return Hold(this, MonoNow());
    if (errno != EWOULDBLOCK && errno != EINTR) {
      const int error = errno;
      ServeNext();
      return ErrnoStatus(error, "lock the device");
    }
    changed_.WaitUntil(&mutex_, MonoNow() + kRetryEvery);
  }
  ServeNext();
  return absl::CancelledError("stopped while waiting for the device");
}

void DeviceLock::Release() {
  MutexLock lock(&mutex_);
  ::flock(file_.get(), LOCK_UN);
  ServeNext();
}

void DeviceLock::ServeNext() {
  ++now_serving_;
  while (given_up_.erase(now_serving_) > 0)
    ++now_serving_;
  changed_.NotifyAll();
}

}  // namespace pike::gpu
