#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"

namespace pike::sandbox {

inline constexpr size_t kFrameBytesMax = size_t{8} << 20;
inline constexpr size_t kFrameFdsMax = 16;

struct Frame {
  std::string bytes;
  std::vector<UniqueFd> fds;  // close-on-exec, in the order sent
};

// Frames over one end of a Unix stream socket: u32 little-endian length, then that many bytes;
// descriptors travel with the first byte. The peer may be hostile: nothing is assumed of it, no
// call takes longer than its deadline, and no more memory is taken than the peer has sent.
//
// Errors, the same for both directions:
//   DeadlineExceeded   nothing is lost: Receive may be called again and goes on where it was. A
//                      Send that was cut off in mid-frame breaks the channel.
//   OutOfRange         the peer has closed its end (between two frames).
//   DataLoss           the peer has closed its end in mid-frame.
//   ResourceExhausted  a frame above kFrameBytesMax.
//   InvalidArgument    more descriptors than kFrameFdsMax; those received are closed.
// After any but the first the channel is broken: further calls return FailedPrecondition.
// Threads: one may send while one other receives; Shutdown may be called by any.
class FrameChannel {
 public:
  explicit FrameChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  FrameChannel(FrameChannel&&) noexcept = default;
  FrameChannel& operator=(FrameChannel&&) noexcept = default;

  // A connected pair: ours, and the end to pass to a sandbox (PassedFd, then close it).
  static absl::StatusOr<std::pair<FrameChannel, UniqueFd>> Pair();

  // `fds` stay the caller's.
  absl::Status Send(absl::string_view bytes, const std::vector<int>& fds, MonoTime deadline);
  absl::StatusOr<Frame> Receive(MonoTime deadline);

  // Ends both directions: a Receive or Send that waits returns OutOfRange or DataLoss.
  void Shutdown();

  // For poll(2): readable means that Receive will make progress.
  int fd() const { return socket_.get(); }

 private:
  absl::Status Fill(size_t bytes_wanted, MonoTime deadline);

  UniqueFd socket_;
  bool is_send_broken_ = false;
  bool is_receive_broken_ = false;
  std::string received_;  // header and payload of the frame that is under way
  std::vector<UniqueFd> received_fds_;
};

}  // namespace pike::sandbox
