#include "common/service/runtime_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include "common/base/errno_status.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace pike::service {
namespace {

constexpr size_t kUnixPathMax = 107;  // sockaddr_un::sun_path without its zero
constexpr size_t kEndpointBytesMax = 4096;

absl::Status CheckOwnFolder(const std::string& path) {
  struct stat facts = {};
  if (::lstat(path.c_str(), &facts) != 0)
    return ErrnoStatus(errno, path);
  if (!S_ISDIR(facts.st_mode))
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a folder: remove it"));
  if (facts.st_uid != ::geteuid())
    return absl::FailedPreconditionError(
        absl::StrCat(path, " belongs to another user: set PIKE_RUNTIME_DIR to a folder of yours"));
  if ((facts.st_mode & 077) != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("others can enter ", path, ": run `chmod 700 ", path, "`"));
  return absl::OkStatus();
}

}  // namespace

std::string Environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read at start only
  return value == nullptr ? "" : value;
}

absl::Status MakeFolders(const std::string& path, unsigned mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST)
      return ErrnoStatus(errno, absl::StrCat("make folder ", part));
    if (end == std::string::npos)
      return absl::OkStatus();
  }
}

absl::StatusOr<std::string> OpenRuntimeDir(const std::string& flag) {
  std::string path = flag;
  if (path.empty())
    path = Environment("PIKE_RUNTIME_DIR");
  if (path.empty() && !Environment("XDG_RUNTIME_DIR").empty())
    path = Environment("XDG_RUNTIME_DIR") + "/pike";
  if (path.empty())
    path = absl::StrCat("/tmp/pike-", ::geteuid());
  RETURN_IF_ERROR(MakeFolders(path, 0700));
  RETURN_IF_ERROR(CheckOwnFolder(path));
  return path;
}

absl::StatusOr<std::string> OpenStateDir(const std::string& flag) {
  std::string path = flag;
  if (path.empty() && !Environment("XDG_DATA_HOME").empty())
    path = Environment("XDG_DATA_HOME") + "/pike";
  if (path.empty()) {
    const std::string home = Environment("HOME");
    if (home.empty())
      return absl::FailedPreconditionError("neither --store nor XDG_DATA_HOME nor HOME is set");
    path = home + "/.local/share/pike";
  }
  RETURN_IF_ERROR(MakeFolders(path, 0700));
  return path;
}

absl::Status WriteEndpoint(const std::string& runtime_dir, const std::string& target) {
  return WriteFileAtomic(runtime_dir + "/endpoint", target + "\n", 0600);
}

absl::StatusOr<std::string> ReadEndpoint(const std::string& runtime_dir) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(runtime_dir + "/endpoint", kEndpointBytesMax));
  absl::StripAsciiWhitespace(&text);
  if (text.empty())
    return absl::NotFoundError(absl::StrCat(runtime_dir, "/endpoint is empty"));
  return text;
}

absl::StatusOr<std::string> FindService(const std::string& flag, const std::string& runtime_flag) {
  if (!flag.empty())
    return flag;
  const std::string from_environment = Environment("PIKE_SERVICE");
  if (!from_environment.empty())
    return from_environment;
  ASSIGN_OR_RETURN(const std::string runtime_dir, OpenRuntimeDir(runtime_flag));
  const absl::StatusOr<std::string> endpoint = ReadEndpoint(runtime_dir);
  if (endpoint.ok())
    return *endpoint;
  const std::string target = DefaultTarget(runtime_dir);
  if (::access(target.substr(5).c_str(), F_OK) == 0)
    return target;
  return absl::NotFoundError(absl::StrCat("no service found in ", runtime_dir,
                                          ": start one with `pike up`, or name one with --service "
                                          "or PIKE_SERVICE"));
}

std::string DefaultTarget(const std::string& runtime_dir) {
  return absl::StrCat("unix:", runtime_dir, "/pike.sock");
}

absl::Status CheckListenTarget(const std::string& target) {
  if (absl::StartsWith(target, "unix:")) {
    const absl::string_view path = absl::string_view(target).substr(5);
    if (path.empty() || path[0] != '/')
      return absl::InvalidArgumentError(
          absl::StrCat(target, ": a Unix socket needs an absolute path"));
    if (path.size() > kUnixPathMax)
      return absl::InvalidArgumentError(
          absl::StrCat(target, ": a Unix socket's path has at most ", kUnixPathMax, " characters"));
    return absl::OkStatus();
  }
  const size_t colon = target.rfind(':');
  int port = -1;
  if (colon == std::string::npos || !absl::SimpleAtoi(target.substr(colon + 1), &port) ||
      port < 0 || port > 65535)
    return absl::InvalidArgumentError(absl::StrCat(target, ": want unix:/path or 127.0.0.1:port"));
  const std::string host = target.substr(0, colon);
  if (host != "127.0.0.1" && host != "localhost" && host != "[::1]")
    return absl::InvalidArgumentError(
        absl::StrCat(target,
                     ": certificates are not there yet, so only loopback addresses "
                     "(127.0.0.1, [::1]) and Unix sockets are served"));
  return absl::OkStatus();
}

}  // namespace pike::service
