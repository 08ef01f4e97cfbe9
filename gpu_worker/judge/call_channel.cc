#include "gpu_worker/judge/call_channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <memory>

namespace pike::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

ChannelFault Gone() {
  return {CallFault::kGone, ""};
}
ChannelFault Violation(std::string text) {
  return {CallFault::kViolation, std::move(text)};
}

bool IsReadable(int fd) {
  pollfd entry = {fd, POLLIN, 0};
  return poll(&entry, 1, /*timeout=*/0) > 0;
}

// Waits until one of two descriptors has something, a quarter of a second at most, so that a clock
// that a supervisor holds is looked at again.
void WaitForEither(pollfd (&entries)[2], nanoseconds timeout) {
  constexpr nanoseconds kSliceMax = std::chrono::milliseconds(250);
  const nanoseconds slice = std::clamp(timeout, nanoseconds(0), kSliceMax);
  timespec spec = {};
  spec.tv_sec = slice.count() / 1'000'000'000;
  spec.tv_nsec = slice.count() % 1'000'000'000;
  if (ppoll(entries, 2, &spec, nullptr) <= 0) {
    entries[0].revents = 0;
    entries[1].revents = 0;
  }
}

// Reads one order; false if it is to abort.
bool TakeOrder(Control& control) {
  const ControlOrder order = control.read();
  if (order != ControlOrder::kNone)
    control.is_held = order == ControlOrder::kHold;
  return order != ControlOrder::kAbort;
}

}  // namespace

std::optional<ChannelFault> CallChannel::CheckQuiet() {
  if (!IsReadable(fd_.get()))
    return std::nullopt;
  const auto record = std::make_unique<CallRecord>();
  std::optional<ChannelFault> fault = Receive(*record);
  if (fault)
    return fault;
  return Violation("a record was sent before its call was released");
}

std::optional<ChannelFault> CallChannel::AwaitResume(Control& control) {
  constexpr int kOrdersMax = 16;  // that change nothing
  for (int orders = 0; control.is_held || (orders < kOrdersMax && IsReadable(control.fd));
       ++orders) {
    pollfd entry = {control.fd, POLLIN, 0};
    if (poll(&entry, 1, /*timeout=*/-1) > 0 && !TakeOrder(control))
      return ChannelFault{CallFault::kAborted, ""};
  }
  return std::nullopt;
}

std::optional<ChannelFault> CallChannel::Send(const CallRecord& call, int input_fd, int output_fd) {
  iovec part = {const_cast<CallRecord*>(&call), sizeof(call)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const int fds[2] = {input_fd, output_fd};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds))] = {};
  if ((call.flags & kHasBuffers) != 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(header), fds, sizeof(fds));
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(sizeof(call)))
    return std::nullopt;
  // The queue holds one call at most, so it is full only if the runner takes none.
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
    return ChannelFault{CallFault::kTimeout, ""};
  return Gone();
}

std::optional<ChannelFault> CallChannel::Receive(CallRecord& reply) {
  iovec part = {&reply, sizeof(reply)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t received = -1;
  do {
    received = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0)
    return Gone();
  if (received == 0) {
    pollfd entry = {fd_.get(), POLLIN | POLLRDHUP, 0};
    poll(&entry, 1, /*timeout=*/0);
    if ((entry.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0)
      return Gone();
    return Violation("an empty record was sent");
  }
  if (received != static_cast<ssize_t>(sizeof(reply)) || (message.msg_flags & MSG_TRUNC) != 0)
    return Violation("a record of a wrong size was sent");
  if (reply.magic != kCallMagic || reply.kind != RecordKind::kReply)
    return Violation("a record that is no reply was sent");
  return std::nullopt;
}

std::optional<ChannelFault> CallChannel::AwaitReply(uint64_t nonce, nanoseconds timeout,
                                                    Control& control, CallRecord& reply) {
  Clock::time_point mark = Clock::now();
  nanoseconds left = timeout;
  bool has_reply = false;  // but is held: what comes next would run without the device's lock
  while (true) {
    pollfd entries[2] = {{has_reply ? -1 : fd_.get(), POLLIN, 0}, {control.fd, POLLIN, 0}};
    WaitForEither(entries, control.is_held ? nanoseconds::max() : left);
    const Clock::time_point now = Clock::now();
    if (!control.is_held)
      left -= now - mark;
    mark = now;
    if (entries[0].revents != 0) {
      std::optional<ChannelFault> fault = Receive(reply);
      if (fault)
        return fault;
      if (reply.nonce != nonce)
        return Violation("a reply with a wrong nonce was sent");
      if (!control.is_held)
        return std::nullopt;
      has_reply = true;
    }
    if (entries[1].revents != 0 && !TakeOrder(control))
      return ChannelFault{CallFault::kAborted, ""};
    if (has_reply && !control.is_held)
      return std::nullopt;
    if (!control.is_held && left <= nanoseconds(0))
      return ChannelFault{CallFault::kTimeout, ""};
  }
}

}  // namespace pike::gpu
