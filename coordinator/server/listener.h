#pragma once

#include <string>

#include <absl/status/status.h>

namespace pike::coordinator {

// Makes way for a socket at `target` ("unix:/path"; anything else needs nothing): removes one that
// a dead process left. FailedPrecondition: a living process listens there, or the path is not a
// socket, or others can enter its folder.
absl::Status PrepareListen(const std::string& target);

}  // namespace pike::coordinator
