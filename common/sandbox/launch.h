#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/sandbox/bwrap_command.h"
#include "common/sandbox/memory_limit.h"
#include "common/sandbox/memory_watch.h"
#include "common/sandbox/output_reader.h"
#include "common/sandbox/spawner.h"
#include "common/sandbox/spec.h"

namespace pike::sandbox {

// What the sandboxes of a host share.
struct Workshop {
  const RootLayout layout;
  Spawner* const spawner;
  OutputReader* const reader;
  TreeLimiter* const limiter;
  MemoryWatch* const watch;
};

// A sandbox whose program was let go.
struct Launched {
  std::shared_ptr<Child> monitor;  // bubblewrap outside; ends when the tree has ended
  pid_t init_pid = 0;
  std::shared_ptr<WatchedTree> tree;
  std::shared_ptr<OutputStream> out;
  std::shared_ptr<OutputStream> err;
  MonoTime start_time;
};

// Carries out the start of a valid `spec` with real uid `uid` (as root). On an error nothing is
// left behind. Threads: from any.
absl::StatusOr<Launched> Launch(const Workshop& workshop, const SandboxSpec& spec, uid_t uid);

}  // namespace pike::sandbox
