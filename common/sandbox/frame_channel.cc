#include "common/sandbox/frame_channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/status_macros.h"

namespace pike::sandbox {
namespace {

constexpr size_t kHeaderBytes = 4;
constexpr size_t kReadBytes = size_t{64} << 10;

// Waits until `fd` is ready for `events`, closed, or `deadline` has passed.
absl::Status WaitReady(int fd, int16_t events, MonoTime deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MonoNow());
    const int64_t wait_ms = std::clamp<int64_t>(left.count(), 0, 60000);
    pollfd polled{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&polled, 1, static_cast<int>(wait_ms));
    if (ready > 0)
      return absl::OkStatus();
    if (ready < 0 && errno != EINTR)
      return ErrnoStatus(errno, "poll");
    if (MonoNow() >= deadline)
      return absl::DeadlineExceededError("frame channel: deadline");
  }
}

bool IsPeerGone(int error) {
  return error == EPIPE || error == ECONNRESET;
}

std::string Header(size_t bytes) {
  std::string header(kHeaderBytes, '\0');
  for (size_t i = 0; i < kHeaderBytes; ++i)
    header[i] = static_cast<char>((bytes >> (8 * i)) & 0xff);
  return header;
}

size_t ParseHeader(absl::string_view header) {
  size_t bytes = 0;
  for (size_t i = 0; i < kHeaderBytes; ++i)
    bytes |= static_cast<size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  return bytes;
}

// Takes over the descriptors of a received message.
void TakeFds(msghdr* message, std::vector<UniqueFd>* fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
      continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds->emplace_back(fd);
    }
  }
}

// One sendmsg of `bytes` (and `fds`, if any). The number of bytes sent, or 0 if it would block.
absl::StatusOr<size_t> SendSome(int socket, absl::string_view bytes, const std::vector<int>& fds) {
  iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};  // NOLINT
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFrameFdsMax)] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0)
    return static_cast<size_t>(sent);
  // ETOOMANYREFS: too many descriptors in flight; they are taken out as the peer reads.
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
    return 0;
  if (IsPeerGone(errno))
    return absl::OutOfRangeError("frame channel: the peer has closed its end");
  return ErrnoStatus(errno, "frame channel: send");
}

}  // namespace

absl::StatusOr<std::pair<FrameChannel, UniqueFd>> FrameChannel::Pair() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return ErrnoStatus(errno, "socketpair");
  return std::pair<FrameChannel, UniqueFd>(FrameChannel(UniqueFd(ends[0])), UniqueFd(ends[1]));
}

absl::Status FrameChannel::Send(absl::string_view bytes, const std::vector<int>& fds,
                                MonoTime deadline) {
  if (is_send_broken_)
    return absl::FailedPreconditionError("frame channel: sending is broken");
  if (bytes.size() > kFrameBytesMax)
    return absl::ResourceExhaustedError(
        absl::StrCat("frame of ", bytes.size(), " bytes, at most ", kFrameBytesMax));
  if (fds.size() > kFrameFdsMax)
    return absl::InvalidArgumentError(
        absl::StrCat(fds.size(), " descriptors in a frame, at most ", kFrameFdsMax));
  const std::string header = Header(bytes.size());
  const size_t total = header.size() + bytes.size();
  size_t sent = 0;
  while (sent < total) {
    const absl::string_view rest = sent < header.size() ? absl::string_view(header).substr(sent)
                                                        : bytes.substr(sent - header.size());
    absl::StatusOr<size_t> count =
        SendSome(socket_.get(), rest, sent == 0 ? fds : std::vector<int>());
    absl::Status status = count.status();
    if (status.ok() && *count == 0)
      status = WaitReady(socket_.get(), POLLOUT, deadline);
    if (!status.ok()) {
      is_send_broken_ = sent > 0 || !absl::IsDeadlineExceeded(status);
      return status;
    }
    sent += *count;
  }
  return absl::OkStatus();
}

// Reads until `received_` has `bytes_wanted` bytes, never more.
absl::Status FrameChannel::Fill(size_t bytes_wanted, MonoTime deadline) {
  char buffer[kReadBytes];
  while (received_.size() < bytes_wanted) {
    iovec part{.iov_base = buffer,
               .iov_len = std::min(sizeof buffer, bytes_wanted - received_.size())};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kFrameFdsMax + 1))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      RETURN_IF_ERROR(WaitReady(socket_.get(), POLLIN, deadline));
      continue;
    }
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && !IsPeerGone(errno))
      return ErrnoStatus(errno, "frame channel: receive");
    if (count <= 0) {
      return received_.empty()
                 ? absl::OutOfRangeError("frame channel: the peer has closed its end")
                 : absl::DataLossError("frame channel: the peer has closed its end in mid-frame");
    }
    TakeFds(&message, &received_fds_);
    if ((message.msg_flags & MSG_CTRUNC) != 0 || received_fds_.size() > kFrameFdsMax)
      return absl::InvalidArgumentError(
          absl::StrCat("frame channel: more than ", kFrameFdsMax, " descriptors in a frame"));
    received_.append(buffer, static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<Frame> FrameChannel::Receive(MonoTime deadline) {
  if (is_receive_broken_)
    return absl::FailedPreconditionError("frame channel: receiving is broken");
  absl::Status status = Fill(kHeaderBytes, deadline);
  if (status.ok()) {
    const size_t bytes = ParseHeader(received_);
    if (bytes > kFrameBytesMax)
      status = absl::ResourceExhaustedError(
          absl::StrCat("frame channel: frame of ", bytes, " bytes, at most ", kFrameBytesMax));
    else
      status = Fill(kHeaderBytes + bytes, deadline);
  }
  if (absl::IsDeadlineExceeded(status))
    return status;
  Frame frame{.bytes = std::move(received_), .fds = std::move(received_fds_)};
  received_.clear();
  received_fds_.clear();
  if (!status.ok()) {
    is_receive_broken_ = true;
    return status;
  }
  frame.bytes.erase(0, kHeaderBytes);
  return frame;
}

void FrameChannel::Shutdown() {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace pike::sandbox
