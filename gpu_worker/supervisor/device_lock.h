#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace pike::gpu {

// A device's name as part of a file's name.
std::string LockFileName(std::string device_id);

// The lock of one device: a flock on <runtime_dir>/locks/<device>.lock, so that workers of one host
// exclude each other and the kernel frees it when its holder dies. Within the process it is first
// come, first served. Held per operation, never over an evaluation. Thread-safe.
class DeviceLock {
 public:
  // The right to use the device, until destruction.
  class Hold {
   public:
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&&) = delete;
    ~Hold();

    MonoTime since() const { return since_; }

   private:
    friend class DeviceLock;
    Hold(DeviceLock* lock, MonoTime since) : lock_(lock), since_(since) {}
    DeviceLock* lock_;
    MonoTime since_;
  };

  static absl::StatusOr<std::unique_ptr<DeviceLock>> Open(const std::string& runtime_dir,
                                                          const std::string& device_id);

  // Waits for its turn. Cancelled if `stop` is requested first; Internal if the file cannot be
  // locked.
  absl::StatusOr<Hold> Acquire(const std::stop_token& stop);

 private:
  explicit DeviceLock(UniqueFd file) : file_(std::move(file)) {}
  void Release();
  void ServeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd file_;
  Mutex mutex_;
  CondVar changed_;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t now_serving_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> given_up_ ABSL_GUARDED_BY(mutex_);  // tickets whose turn is skipped
};

}  // namespace pike::gpu
