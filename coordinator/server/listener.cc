#include "coordinator/server/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <absl/status/statusor.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace pike::coordinator {
namespace {

absl::Status CheckFolder(const std::string& folder) {
  struct stat facts = {};
  if (::stat(folder.c_str(), &facts) != 0)
    return ErrnoStatus(errno, absl::StrCat("socket folder ", folder));
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    return absl::FailedPreconditionError(absl::StrCat("socket folder ", folder,
                                                      " is open to others: run `chmod 700 ", folder,
                                                      "`, or choose one of your own"));
  return absl::OkStatus();
}

// Whether a process accepts connections at `path`.
absl::StatusOr<bool> IsAlive(const std::string& path) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.is_open())
    return ErrnoStatus(errno, "make a socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return absl::InvalidArgumentError(absl::StrCat(path, ": too long for a Unix socket"));
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(probe.get(), generic, sizeof(address)) == 0 || errno == EAGAIN)
    return true;
  if (errno == ECONNREFUSED)
    return false;
  return ErrnoStatus(errno, absl::StrCat("connect to ", path));
}

}  // namespace

absl::Status PrepareListen(const std::string& target) {
  if (!absl::StartsWith(target, "unix:"))
    return absl::OkStatus();
  const std::string path = target.substr(5);
  RETURN_IF_ERROR(CheckFolder(path.substr(0, path.rfind('/'))));
  struct stat facts = {};
  if (::lstat(path.c_str(), &facts) != 0)
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, path);
  if (!S_ISSOCK(facts.st_mode))
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is there and not a socket; remove it or give another --listen"));
  ASSIGN_OR_RETURN(const bool is_alive, IsAlive(path));
  if (is_alive)
    return absl::FailedPreconditionError(
        absl::StrCat("another process listens at ", path, "; stop it or give another --listen"));
  if (::unlink(path.c_str()) != 0)
    return ErrnoStatus(errno, absl::StrCat("remove the stale socket ", path));
  return absl::OkStatus();
}

}  // namespace pike::coordinator
