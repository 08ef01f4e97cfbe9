#include "gpu_worker/runner/record_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace pike::gpu {

ReceivedFds::ReceivedFds(ReceivedFds&& other) noexcept
    : fds_(std::exchange(other.fds_, std::array<int, 2>{-1, -1})) {}

ReceivedFds& ReceivedFds::operator=(ReceivedFds&& other) noexcept {
  std::swap(fds_, other.fds_);
  return *this;
}

ReceivedFds::~ReceivedFds() {
  for (const int fd : fds_) {
    if (fd >= 0)
      close(fd);
  }
}

bool ReceiveRecord(int channel, CallRecord& record, ReceivedFds& fds) {
  fds = {};
  iovec part = {&record, sizeof(record)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
  msghdr message = {};
  ssize_t received = -1;
  do {
    message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    received = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  const cmsghdr* const header = received > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    memcpy(fds.fds_.data(), CMSG_DATA(header), bytes < sizeof(fds.fds_) ? bytes : sizeof(fds.fds_));
  }
  return received == static_cast<ssize_t>(sizeof(record)) && record.magic == kCallMagic &&
         record.tensor_count <= kTensorsMax && record.text_bytes <= kTextBytesMax;
}

bool SendRecord(int channel, const CallRecord& record, int fd) {
  iovec part = {const_cast<CallRecord*>(&record), sizeof(record)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(channel, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(record));
}

}  // namespace pike::gpu
