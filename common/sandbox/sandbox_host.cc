#include "common/sandbox/sandbox_host.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <absl/strings/str_cat.h>

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
  return std::unique_ptr<Sandbox>(new Sandbox(
      std::make_unique<Sandbox::Impl>(spec.name, uid, std::move(lease), std::move(launched))));
}

const Capabilities& SandboxHost::capabilities() const {
  return impl_->capabilities;
}
Spawner* SandboxHost::spawner() {
  return &impl_->spawner;
}

}  // namespace pike::sandbox
