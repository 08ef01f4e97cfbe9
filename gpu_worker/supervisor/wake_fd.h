#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace pike::gpu {

// Wakes a thread that waits in poll(2). Wake from any thread; the rest belongs to the waiter.
class WakeFd {
 public:
  WakeFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { PIKE_CHECK(fd_.is_open()); }

  void Wake() {
    const uint64_t one = 1;
    // Full means that it is readable already.
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof(one));
  }
  void Clear() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(fd_.get(), &count, sizeof(count));
  }
  int get() const { return fd_.get(); }

 private:
  const UniqueFd fd_;
};

}  // namespace pike::gpu
