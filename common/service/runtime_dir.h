#pragma once

#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace pike::service {

// Value of an environment variable, empty if unset. Call before threads change the environment.
std::string Environment(const char* name);

// The runtime folder: `flag` if not empty, else $PIKE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/pike, else
// /tmp/pike-<uid>. It is made (mode 0700) if missing. FailedPrecondition, with what to do, if it is
// not a folder of ours or others can enter it.
absl::StatusOr<std::string> OpenRuntimeDir(const std::string& flag);

// The state folder: `flag` if not empty, else $XDG_DATA_HOME/pike, else ~/.local/share/pike. Made
// if missing.
absl::StatusOr<std::string> OpenStateDir(const std::string& flag);

// Makes a folder and its parents.
absl::Status MakeFolders(const std::string& path, unsigned mode);

// Service target in the file <runtime>/endpoint.
absl::Status WriteEndpoint(const std::string& runtime_dir, const std::string& target);
absl::StatusOr<std::string> ReadEndpoint(const std::string& runtime_dir);

// Where a client finds the service: `flag`, else $PIKE_SERVICE, else the endpoint file of the
// runtime folder, else its default socket if that exists. NotFound, with what to do, if there is
// none.
absl::StatusOr<std::string> FindService(const std::string& flag, const std::string& runtime_flag);

// "unix:<runtime>/pike.sock".
std::string DefaultTarget(const std::string& runtime_dir);

// Checks a target to listen on: a Unix socket with an absolute path of at most 107 characters, or a
// loopback address with a port (port 0 is allowed). InvalidArgument with a line for people
// otherwise.
absl::Status CheckListenTarget(const std::string& target);

}  // namespace pike::service
