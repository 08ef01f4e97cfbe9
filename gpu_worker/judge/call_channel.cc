#include "gpu_worker/judge/call_channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <memory>

#include "common/base/check.h"

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
  std::optional<ChannelFault> fault = Receive(*record, /*fd=*/nullptr);
  if (fault)
    return fault;
  return Violation("a record was sent before it was asked for");
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

std::optional<ChannelFault> CallChannel::Send(const CallRecord& record,
                                              const std::vector<int>& fds) {
  constexpr std::size_t kFdsMax = 2;
  PIKE_CHECK(fds.size() <= kFdsMax);
  iovec part = {const_cast<CallRecord*>(&record), sizeof(record)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(sizeof(record)))
    return std::nullopt;
  // The queue holds one record at most, so it is full only if the runner takes none.
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
    return ChannelFault{CallFault::kTimeout, ""};
  return Gone();
}

std::optional<ChannelFault> CallChannel::Receive(CallRecord& reply, UniqueFd* fd) {
  iovec part = {&reply, sizeof(reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd != nullptr) {
    message.msg_control = control;
    message.msg_controllen = CMSG_LEN(sizeof(int));  // no room for a second one
  }
  ssize_t received = -1;
  do {
    received = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  const cmsghdr* const header = fd != nullptr && received > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int number = -1;
    memcpy(&number, CMSG_DATA(header), sizeof(number));
    fd->Reset(number);
  }
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
  if (reply.magic != kCallMagic)
    return Violation("a record that is no answer was sent");
  return std::nullopt;
}

std::optional<ChannelFault> CallChannel::AwaitReply(const Expected& expected, nanoseconds timeout,
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
      std::optional<ChannelFault> fault = Receive(reply, expected.fd);
      if (fault)
        return fault;
      if (reply.kind != expected.kind)
        return Violation("a record of a wrong kind was sent");
      if (reply.nonce != expected.nonce)
        return Violation("an answer with a wrong nonce was sent");
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
