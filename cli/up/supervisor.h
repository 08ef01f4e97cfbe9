#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/service_client.h"
#include "cli/exit_code.h"
#include "cli/up/child_plan.h"
#include "cli/up/child_process.h"
#include "cli/up/idle_policy.h"
#include "cli/up/restart_policy.h"
#include "cli/up/signal_inbox.h"
#include "cli/up/up_metrics.h"
#include "common/base/clock.h"

namespace pike::cli {

// The running half of `pike up`: starts the children, restarts dead ones, says when all are ready,
// and stops them: workers first, the coordinator when they are gone. A second signal kills at once.
//
// Phases: starting -> ready -> stopping workers -> stopping coordinator -> done. One thread, the
// main one: the children's lives are tied to it.
class UpSupervisor {
 public:
  // `idle_limits` set: end once nothing is left to do. `signals` and `metrics` must outlive this.
  UpSupervisor(const UpSettings& settings, std::optional<IdlePolicy::Limits> idle_limits,
               SignalInbox* signals, UpMetrics* metrics);

  // Blocks until everything has stopped.
  ExitCode Run();

 private:
  enum class Phase { kStarting, kReady, kStoppingWorkers, kStoppingCoordinator, kDone };

  struct Child {
    ChildPlan plan;
    RestartPolicy policy;
    std::optional<ChildProcess> process;
    MonoTime started_at;
    std::optional<MonoTime> start_at;  // set while it waits to be started
  };

  bool is_stopping() const { return phase_ >= Phase::kStoppingWorkers; }
  void OnSignal(int signal_number);
  void StartDueChildren(MonoTime now);
  void ReapChildren(MonoTime now);
  void OnDeath(Child* child, const ProcessEnd& end, MonoTime now);
  // Asks the service how it is, at most once a second.
  void CheckService(MonoTime now);
  void CheckReady(MonoTime now);
  void BeginStop(ExitCode code, MonoTime now);
  void AdvanceStop(MonoTime now);
  bool HasLiveChild(size_t first) const;
  void SignalChildren(size_t first, int signal_number) const;
  void PrintReady(MonoTime now) const;

  const UpSettings settings_;
  std::optional<IdlePolicy> idle_;
  SignalInbox* const signals_;
  UpMetrics* const metrics_;
  ServiceClient client_;
  std::vector<Child> children_;  // the coordinator first
  Phase phase_ = Phase::kStarting;
  const MonoTime started_at_;
  MonoTime next_check_;
  MonoTime next_waiting_line_;
  bool is_coordinator_up_ = false;
  MonoTime kill_at_;
  ExitCode exit_code_ = ExitCode::kOk;
};

}  // namespace pike::cli
