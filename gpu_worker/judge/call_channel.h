#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "gpu_worker/runner/call_protocol.h"

namespace pike::gpu {

// What the supervisor wants while a call is in progress.
enum class ControlOrder { kNone, kHold, kResume, kAbort };

// The supervisor's channel, watched while waiting for a runner. Calls `read` when `fd` is readable.
struct Control {
  int fd = -1;
  std::function<ControlOrder()> read;
  // Asks the supervisor to let "candidate" or "reference" run and to make the other stand still;
  // its kResume says that it is done. Needed only by a measurement in turns.
  std::function<void(const char* side)> ask_turn;
  bool is_held = false;  // between kHold or a turn asked for, and kResume
};

enum class CallFault { kGone, kTimeout, kViolation, kAborted };

struct ChannelFault {
  CallFault fault = CallFault::kGone;
  std::string text;  // one line; only for kViolation
};

// The judge's end of one runner's call channel. Whatever the runner does, no function blocks longer
// than its timeout and none fails in another way than by a ChannelFault. Descriptors that a runner
// sends are closed by the kernel, since no room for them is offered unless one is expected.
// Not thread-safe. Owns the descriptor.
class CallChannel {
 public:
  explicit CallChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  // kViolation if a record is there although no call is released, kGone at end of file.
  std::optional<ChannelFault> CheckQuiet();

  // Waits until the supervisor holds nothing. kAborted if it so wishes.
  static std::optional<ChannelFault> AwaitResume(Control& control);

  // Sends a record, and descriptors with it.
  std::optional<ChannelFault> Send(const CallRecord& record, const std::vector<int>& fds);

  // Waits for the answer of `kind` to `nonce`. Time between kHold and kResume is not charged, and
  // between them this does not return but by a fault. The answer's contents beyond its header are
  // not checked. `fd`, unless null, takes one descriptor that came with it.
  struct Expected {
    RecordKind kind = RecordKind::kReply;
    uint64_t nonce = 0;
    UniqueFd* fd = nullptr;
  };
  std::optional<ChannelFault> AwaitReply(const Expected& expected, std::chrono::nanoseconds timeout,
                                         Control& control, CallRecord& reply);

 private:
  // Takes the record that is there.
  std::optional<ChannelFault> Receive(CallRecord& reply, UniqueFd* fd);

  UniqueFd fd_;
};

}  // namespace pike::gpu
