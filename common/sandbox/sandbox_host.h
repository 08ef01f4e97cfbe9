#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/sandbox/capabilities.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/spec.h"

namespace pike::sandbox {

class Spawner;

struct HostOptions {
  // Programs; a name without a slash is looked up in /usr/bin and /bin, "bwrap" in the folder of a
  // relocatable installation before.
  std::string bwrap = "bwrap";
  std::string setpriv = "setpriv";
  // As root, sandboxes get the uids from here on; workers that share a host should not share them.
  uid_t uid_base = 200000;
  // Do not use cgroups even where they are there: memory is watched, processes are limited by
  // RLIMIT_NPROC.
  bool is_without_cgroups = false;
};

// Starts sandboxes, and owns what all sandboxes of a process share: the thread that spawns and
// reaps, the one that reads output, the one that watches memory, the cgroup and the uids.
// One per process, made before the first sandbox, destroyed after the last.
// Threads: any member from any thread. Leftovers of dead predecessors are removed by Create.
class SandboxHost {
 public:
  // FailedPrecondition if this machine cannot run sandboxes: the message has the fix.
  static absl::StatusOr<std::unique_ptr<SandboxHost>> Create(const HostOptions& options);
  ~SandboxHost();
  SandboxHost(const SandboxHost&) = delete;
  SandboxHost& operator=(const SandboxHost&) = delete;

  // Starts `spec`; returns once its root, limits and namespaces are complete (some 10 ms) and the
  // program has been let go. Errors are ours, never the program's: InvalidArgument for a bad spec,
  // else Internal, Unavailable, ResourceExhausted or DeadlineExceeded (30 s).
  absl::StatusOr<std::unique_ptr<Sandbox>> Start(const SandboxSpec& spec);

  // Makes all of its sandboxes stand still, and those to come, until GoOn. Unavailable: some do not
  // by `deadline`.
  absl::Status StandStill(MonoTime deadline);
  void GoOn();

  // What sandboxes on this machine are made of, for Hello and evidence.
  const Capabilities& capabilities() const;

  // For trusted programs outside any sandbox.
  Spawner* spawner();

  class Impl;

 private:
  explicit SandboxHost(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace pike::sandbox
