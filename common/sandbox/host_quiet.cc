#include "common/sandbox/host_quiet.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "common/base/errno_status.h"
#include "common/base/log.h"

namespace pike::sandbox {
namespace {

constexpr char kFolder[] = "/quiet";
constexpr char kEnding[] = ".sock";
constexpr int kConnectionsMax = 16;
constexpr size_t kListenersMax = 64;
constexpr std::chrono::seconds kStillTimeout{2};
// With less it is not worth while.
constexpr std::chrono::seconds kCreditMin{1};

std::optional<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return std::nullopt;
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd NewSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int MsUntil(MonoTime time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - MonoNow()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

// One who wants quiet.
struct Asker {
  UniqueFd fd;
  MonoTime until;
};

}  // namespace

absl::StatusOr<std::unique_ptr<QuietListener>> QuietListener::Start(const std::string& runtime_dir,
                                                                    const std::string& name,
                                                                    SandboxHost* host) {
  const std::string folder = runtime_dir + kFolder;
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, folder);
  const std::string path = absl::StrCat(folder, "/", name, kEnding);
  const std::optional<sockaddr_un> address = AddressOf(path);
  if (!address)
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is too long for a socket: choose a shorter --runtime-dir"));
  UniqueFd socket = NewSocket();
  if (!socket.is_open())
    return ErrnoStatus(errno, "socket");
  ::unlink(path.c_str());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0 ||
      ::listen(socket.get(), kConnectionsMax) != 0)
    return ErrnoStatus(errno, path);
  return std::unique_ptr<QuietListener>(new QuietListener(path, std::move(socket), host));
}

QuietListener::QuietListener(std::string path, UniqueFd socket, SandboxHost* host)
    : path_(std::move(path)),
      socket_(std::move(socket)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      host_(host) {
  PIKE_CHECK(stop_.is_open());
  thread_ = std::thread([this] { Serve(); });
}

QuietListener::~QuietListener() {
  ::unlink(path_.c_str());
  const uint64_t one = 1;
  PIKE_CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

void QuietListener::Serve() {
  std::vector<Asker> askers;
  bool is_still = false;
  using Seconds = std::chrono::duration<double>;
  Seconds credit = kQuietMax;  // may stand still for so long
  MonoTime last = MonoNow();
  for (;;) {
    std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    MonoTime wake = MonoNow() + kQuietMax;
    for (const Asker& asker : askers) {
      polled.push_back({asker.fd.get(), POLLIN, 0});
      wake = std::min(wake, asker.until);
    }
    if (::poll(polled.data(), polled.size(), askers.empty() ? -1 : MsUntil(wake)) < 0)
      continue;
    if (polled[0].revents != 0)
      break;
    // They send nothing: what is readable is an end of file.
    const MonoTime now = MonoNow();
    const Seconds passed = now - std::exchange(last, now);
    credit =
        is_still ? credit - passed : std::min<Seconds>(credit + passed * kQuietShare, kQuietMax);
    for (size_t i = askers.size(); i > 0; --i) {
      if (polled[i + 1].revents != 0 || now >= askers[i - 1].until)
        askers.erase(askers.begin() + static_cast<ptrdiff_t>(i) - 1);
    }
    UniqueFd asked;
    if (polled[1].revents != 0)
      asked.Reset(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (asked.is_open() && askers.size() < kConnectionsMax && credit > kCreditMin) {
      const absl::Status stood = host_->StandStill(MonoNow() + kStillTimeout);
      is_still = true;
      if (!stood.ok())
        LogWarning(absl::StrCat("not quiet for a timing: ", stood.message()));
      else if (::send(asked.get(), "q", 1, MSG_NOSIGNAL) == 1)
        askers.push_back(
            {std::move(asked), now + std::chrono::duration_cast<MonoTime::duration>(credit)});
    }
    if (askers.empty() && std::exchange(is_still, false))
      host_->GoOn();
  }
  if (is_still)
    host_->GoOn();
}

HostQuiet::HostQuiet(const std::string& runtime_dir, MonoTime deadline) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(runtime_dir + kFolder, error)) {
    const std::optional<sockaddr_un> address = AddressOf(entry.path().string());
    if (!address || entry.path().extension() != kEnding || connections_.size() >= kListenersMax)
      continue;
    UniqueFd fd = NewSocket();
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0)
      connections_.push_back(std::move(fd));
    else if (errno == ECONNREFUSED)
      ::unlink(address->sun_path);  // of a process that was killed
  }
  for (const UniqueFd& fd : connections_) {
    pollfd polled = {fd.get(), POLLIN, 0};
    char answer = 0;
    if (::poll(&polled, 1, MsUntil(deadline)) <= 0 || ::recv(fd.get(), &answer, 1, 0) != 1)
      are_still_ = false;
  }
}

}  // namespace pike::sandbox
