#pragma once

#include <array>

#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// The descriptors that came with a record, -1 where there is none; closes them.
class ReceivedFds {
 public:
  ReceivedFds() = default;
  ReceivedFds(ReceivedFds&& other) noexcept;
  ReceivedFds& operator=(ReceivedFds&& other) noexcept;
  ~ReceivedFds();

  int first() const { return fds_[0]; }
  int second() const { return fds_[1]; }

 private:
  friend bool ReceiveRecord(int channel, CallRecord& record, ReceivedFds& fds);

  std::array<int, 2> fds_ = {-1, -1};
};

// Blocks until the judge's next record is there. False at end of file and if it is none.
bool ReceiveRecord(int channel, CallRecord& record, ReceivedFds& fds);

// Sends an answer, and with it a duplicate of `fd` unless that is negative.
bool SendRecord(int channel, const CallRecord& record, int fd);

}  // namespace pike::gpu
