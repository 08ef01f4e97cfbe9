// The frame channel over real sockets, and its Python side. The peer is a thread or a plain child.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/sandbox/frame_channel.h"
#include "common/sandbox/result_file.h"
#include "tests/integration/sandbox_fixture.h"

namespace pike::sandbox {
namespace {

struct Ends {
  FrameChannel ours;
  UniqueFd theirs;
};

Ends MakeEnds() {
  auto pair = FrameChannel::Pair();
  REQUIRE(pair.ok());
  return {.ours = std::move(pair->first), .theirs = std::move(pair->second)};
}

void WriteRaw(const UniqueFd& fd, const std::string& bytes) {
  REQUIRE(write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

ino_t Inode(int fd) {
  struct stat facts {};
  REQUIRE(fstat(fd, &facts) == 0);
  return facts.st_ino;
}

size_t OpenFdCount() {
  size_t count = 0;
  for (int fd = 0; fd < 1000; ++fd)
    count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

const std::string kThreeBytes = std::string("\3\0\0\0", 4);

}  // namespace

TEST_CASE("FrameChannel: frames arrive whole, in order, however they were cut") {
  Ends ends = MakeEnds();
  WriteRaw(ends.theirs, kThreeBytes + "abc" + std::string("\0\0\0\0", 4) + "\1");
  CHECK(ends.ours.Receive(Soon())->bytes == "abc");
  CHECK(ends.ours.Receive(Soon())->bytes.empty());
  // The rest of the third: a deadline in mid-frame loses nothing.
  CHECK(absl::IsDeadlineExceeded(ends.ours.Receive(MonoNow()).status()));
  WriteRaw(ends.theirs, std::string("\0\0\0", 3));
  CHECK(absl::IsDeadlineExceeded(ends.ours.Receive(MonoNow()).status()));
  WriteRaw(ends.theirs, "z");
  CHECK(ends.ours.Receive(Soon())->bytes == "z");
}

TEST_CASE("FrameChannel: each way to fail has its own status, and breaks the channel") {
  Ends ends = MakeEnds();
  SECTION("the end between two frames") {
    WriteRaw(ends.theirs, kThreeBytes + "abc");
    ends.theirs.Reset();
    CHECK(ends.ours.Receive(Soon()).ok());
    CHECK(absl::IsOutOfRange(ends.ours.Receive(Soon()).status()));
  }
  SECTION("the end in a header") {
    WriteRaw(ends.theirs, "\3");
    ends.theirs.Reset();
    CHECK(absl::IsDataLoss(ends.ours.Receive(Soon()).status()));
  }
  SECTION("the end in a payload") {
    WriteRaw(ends.theirs, kThreeBytes + "a");
    ends.theirs.Reset();
    CHECK(absl::IsDataLoss(ends.ours.Receive(Soon()).status()));
  }
  SECTION("a frame above the limit") {
    WriteRaw(ends.theirs, std::string("\1\0\200\0", 4));
    CHECK(absl::IsResourceExhausted(ends.ours.Receive(Soon()).status()));
  }
  SECTION("garbage") {
    WriteRaw(ends.theirs, "Traceback (most recent call last)");
    CHECK(absl::IsResourceExhausted(ends.ours.Receive(Soon()).status()));
  }
  CHECK(absl::IsFailedPrecondition(ends.ours.Receive(Soon()).status()));
}

TEST_CASE("FrameChannel: what cannot be sent is refused") {
  Ends ends = MakeEnds();
  SECTION("too large") {
    const std::string large(kFrameBytesMax + 1, 'x');
    CHECK(absl::IsResourceExhausted(ends.ours.Send(large, {}, Soon())));
    CHECK(ends.ours.Send("small", {}, Soon()).ok());
  }
  SECTION("too many descriptors") {
    const std::vector<int> fds(kFrameFdsMax + 1, 0);
    CHECK(absl::IsInvalidArgument(ends.ours.Send("", fds, Soon())));
  }
  SECTION("nobody there") {
    ends.theirs.Reset();
    CHECK(absl::IsOutOfRange(ends.ours.Send("x", {}, Soon())));
  }
  SECTION("nobody reads: the deadline, then broken, since half a frame is out") {
    const std::string large(kFrameBytesMax, 'x');
    CHECK(absl::IsDeadlineExceeded(ends.ours.Send(large, {}, MonoNow())));
    CHECK(absl::IsFailedPrecondition(ends.ours.Send("x", {}, Soon())));
  }
}

TEST_CASE("FrameChannel: the largest frame passes, both ways at once") {
  Ends ends = MakeEnds();
  FrameChannel theirs(std::move(ends.theirs));
  const std::string large(kFrameBytesMax, 'x');
  absl::Status sent;
  std::jthread peer([&] {
    absl::StatusOr<Frame> frame = theirs.Receive(Soon());
    sent = frame.ok() ? theirs.Send(frame->bytes, {}, Soon()) : frame.status();
  });
  REQUIRE(ends.ours.Send(large, {}, Soon()).ok());
  CHECK(ends.ours.Receive(Soon())->bytes == large);
  peer.join();
  CHECK(sent.ok());
}

TEST_CASE("FrameChannel: Shutdown wakes up who receives") {
  Ends ends = MakeEnds();
  absl::Status status;
  std::jthread receiver([&] { status = ends.ours.Receive(Soon()).status(); });
  ends.ours.Shutdown();
  receiver.join();
  CHECK(absl::IsOutOfRange(status));
}

TEST_CASE("FrameChannel: descriptors arrive with their frame, close-on-exec, and none leak") {
  const size_t open_before = OpenFdCount();
  {
    Ends ends = MakeEnds();
    FrameChannel theirs(std::move(ends.theirs));
    absl::StatusOr<ResultFile> first = ResultFile::Create();
    absl::StatusOr<ResultFile> second = ResultFile::Create();
    REQUIRE((first.ok() && second.ok()));
    REQUIRE(theirs.Send("a", {first->fd()}, Soon()).ok());
    REQUIRE(theirs.Send("b", {}, Soon()).ok());
    REQUIRE(theirs.Send("c", {second->fd(), first->fd()}, Soon()).ok());
    const absl::StatusOr<Frame> a = ends.ours.Receive(Soon());
    const absl::StatusOr<Frame> b = ends.ours.Receive(Soon());
    const absl::StatusOr<Frame> c = ends.ours.Receive(Soon());
    REQUIRE((a.ok() && b.ok() && c.ok()));
    REQUIRE((a->fds.size() == 1 && b->fds.empty() && c->fds.size() == 2));
    CHECK(Inode(a->fds[0].get()) == Inode(first->fd()));
    CHECK(Inode(c->fds[0].get()) == Inode(second->fd()));
    CHECK(fcntl(a->fds[0].get(), F_GETFD) == FD_CLOEXEC);
  }
  CHECK(OpenFdCount() == open_before);
}

TEST_CASE("FrameChannel: more descriptors than allowed break the channel and are closed") {
  const size_t open_before = OpenFdCount();
  {
    Ends ends = MakeEnds();
    const std::vector<int> fds(kFrameFdsMax + 8, ends.theirs.get());
    char control[CMSG_SPACE(sizeof(int) * (kFrameFdsMax + 8))] = {};
    std::string bytes = kThreeBytes + "abc";
    iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
    REQUIRE(sendmsg(ends.theirs.get(), &message, 0) == static_cast<ssize_t>(bytes.size()));
    CHECK(absl::IsInvalidArgument(ends.ours.Receive(Soon()).status()));
  }
  CHECK(OpenFdCount() == open_before);
}

TEST_CASE("FrameChannel: talks with frames.py in a sandbox, descriptors included") {
  SandboxFixture f;
  Ends ends = MakeEnds();
  const char* source = std::getenv("PIKE_SOURCE_DIR");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  SandboxSpec spec = f.Python(
      "import sys, os\n"
      "sys.path.insert(0, '/pike/inside')\n"
      "from frames import FrameChannel\n"
      "channel = FrameChannel(3)\n"
      "obj, fds = channel.recv()\n"
      "os.write(fds[0], b'from inside')\n"
      "channel.send({'seen': obj, 'count': len(fds)}, fds)\n"
      "try: channel.recv()\n"
      "except EOFError: sys.exit(7)\n");
  spec.read_only_binds = {
      {.host_path = absl::StrCat(source, "/common/inside"), .inside_path = "/pike/inside"}};
  spec.fds = {{.host_fd = ends.theirs.get(), .inside_fd = 3}};
  const std::unique_ptr<Sandbox> sandbox = f.Start(spec);
  ends.theirs.Reset();
  absl::StatusOr<ResultFile> file = ResultFile::Create();
  REQUIRE(file.ok());
  REQUIRE(ends.ours.Send(R"({"text":"grüße"})", {file->fd()}, Soon()).ok());
  const absl::StatusOr<Frame> reply = ends.ours.Receive(Soon());
  REQUIRE(reply.ok());
  CHECK(reply->bytes == R"({"seen":{"text":"gr\u00fc\u00dfe"},"count":1})");
  REQUIRE(reply->fds.size() == 1);
  CHECK(Inode(reply->fds[0].get()) == Inode(file->fd()));
  CHECK(file->Read(100).value_or("") == "from inside");
  ends.ours.Shutdown();
  const Exit exit = sandbox->WaitOrKill(Soon());
  INFO(sandbox->Stderr().Text());
  CHECK(exit.status == 7);
}

}  // namespace pike::sandbox
