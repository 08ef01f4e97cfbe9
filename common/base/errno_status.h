#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

namespace pike {

// The one conversion of errno to a Status: "<what>: <text of errno>". ENOENT is NotFound, EEXIST
// AlreadyExists, EACCES and EPERM PermissionDenied, ENOSPC, EMFILE, ENFILE and EDQUOT
// ResourceExhausted, EAGAIN and EINTR Unavailable, everything else Internal.
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace pike
