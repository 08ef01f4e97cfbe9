#include "common/sandbox/sandbox_host.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/sandbox/bwrap_command.h"
#include "common/sandbox/host_check.h"
#include "common/sandbox/launch.h"
#include "common/sandbox/memory_limit.h"
#include "common/sandbox/memory_watch.h"
#include "common/sandbox/output_reader.h"
#include "common/sandbox/sandbox_impl.h"
#include "common/sandbox/seccomp_filter.h"
#include "common/sandbox/spawner.h"

namespace pike::sandbox {
namespace {

RootLayout Layout(const HostOptions& options, std::string seccomp_filter) {
  RootLayout layout = ReadRootLayout();
  layout.bwrap = FindBwrap(options.bwrap);
  layout.setpriv = FindProgram(options.setpriv);
  layout.prlimit = FindProgram("prlimit");
  layout.seccomp_filter = std::move(seccomp_filter);
  return layout;
}

}  // namespace

class SandboxHost::Impl {
 public:
  Impl(const HostOptions& host_options, std::string seccomp_filter)
      : options(host_options),
        limiter(TreeLimiter::Create(host_options.is_without_cgroups)),
        watch(limiter->has_memory_cgroup()),
        workshop{.layout = Layout(host_options, std::move(seccomp_filter)),
                 .spawner = &spawner,
                 .reader = &reader,
                 .limiter = limiter.get(),
                 .watch = &watch} {}

  // Destroyed in the opposite order: threads that use a member go before it.
  const HostOptions options;
  Capabilities capabilities;
  UidSlots slots;
  Spawner spawner;
  OutputReader reader;
  const std::unique_ptr<TreeLimiter> limiter;
  MemoryWatch watch;
  const Workshop workshop;

  // The trees that may still live.
  std::vector<std::shared_ptr<WatchedTree>> LiveTrees() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::vector<std::shared_ptr<WatchedTree>> live;
    for (const std::weak_ptr<WatchedTree>& tree : trees) {
      if (std::shared_ptr<WatchedTree> one = tree.lock())
        live.push_back(std::move(one));
    }
    return live;
  }

  Mutex mutex;
  std::vector<std::weak_ptr<WatchedTree>> trees ABSL_GUARDED_BY(mutex);
  bool is_still ABSL_GUARDED_BY(mutex) = false;
};

absl::StatusOr<std::unique_ptr<SandboxHost>> SandboxHost::Create(const HostOptions& options) {
  Capabilities capabilities;
  capabilities.problems = MissingPrograms(options);
  RETURN_IF_ERROR(FirstFatal(capabilities));
  std::string filter;
  if (HasSeccomp()) {
    ASSIGN_OR_RETURN(filter, MakeSeccompFilter());
  }
  std::unique_ptr<SandboxHost> host(
      new SandboxHost(std::make_unique<Impl>(options, std::move(filter))));
  const absl::StatusOr<std::string> seen = LookInside(host.get());
  if (!seen.ok()) {
    const Problem problem = WhyNoSandbox(seen.status());
    return absl::FailedPreconditionError(absl::StrCat(problem.what, "; fix: ", problem.fix));
  }
  const TreeLimiter& limiter = *host->impl_->limiter;
  capabilities.names = LayersSeen(*seen, OwnNamespaces());
  capabilities.names.insert(capabilities.names.end(),
                            {limiter.has_memory_cgroup() ? "cgroup-memory" : "rss-watchdog",
                             limiter.has_pids_cgroup() ? "cgroup-pids" : "rlimit-nproc",
                             limiter.has_freezer_cgroup() ? "cgroup-freezer" : "sigstop"});
  std::sort(capabilities.names.begin(), capabilities.names.end());
  capabilities.missing = MissingLayers(capabilities);
  capabilities.problems = Shortcomings(capabilities.missing);
  host->impl_->capabilities = std::move(capabilities);
  return host;
}

SandboxHost::SandboxHost(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SandboxHost::~SandboxHost() = default;

absl::StatusOr<std::unique_ptr<Sandbox>> SandboxHost::Start(const SandboxSpec& spec) {
  RETURN_IF_ERROR(ValidateSpec(spec));
  ASSIGN_OR_RETURN(const int slot, impl_->slots.Take(spec.uid_slot));
  SlotLease lease(&impl_->slots, slot);
  const uid_t uid = impl_->workshop.layout.is_root
                        ? impl_->options.uid_base + static_cast<uid_t>(slot)
                        : geteuid();
  ASSIGN_OR_RETURN(Launched launched, Launch(impl_->workshop, spec, uid));
  {
    MutexLock lock(&impl_->mutex);
    std::erase_if(impl_->trees, [](const auto& tree) { return tree.expired(); });
    impl_->trees.push_back(launched.tree);
    if (impl_->is_still)
      RETURN_IF_ERROR(launched.tree->Freeze());
  }
  return std::unique_ptr<Sandbox>(new Sandbox(
      std::make_unique<Sandbox::Impl>(spec.name, uid, std::move(lease), std::move(launched))));
}

absl::Status SandboxHost::StandStill(MonoTime deadline) {
  std::vector<std::shared_ptr<WatchedTree>> trees;
  {
    MutexLock lock(&impl_->mutex);
    impl_->is_still = true;
    trees = impl_->LiveTrees();
    for (const std::shared_ptr<WatchedTree>& tree : trees)
      RETURN_IF_ERROR(tree->Freeze());
  }
  for (const std::shared_ptr<WatchedTree>& tree : trees) {
    if (!tree->WaitFrozen(deadline))
      return absl::UnavailableError("a sandbox does not stand still");
  }
  return absl::OkStatus();
}

void SandboxHost::GoOn() {
  MutexLock lock(&impl_->mutex);
  impl_->is_still = false;
  for (const std::shared_ptr<WatchedTree>& tree : impl_->LiveTrees())
    tree->Thaw();
}

const Capabilities& SandboxHost::capabilities() const {
  return impl_->capabilities;
}
Spawner* SandboxHost::spawner() {
  return &impl_->spawner;
}

}  // namespace pike::sandbox
