#include "cli/up/supervisor.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "cli/console.h"
#include "cli/format.h"
#include "cli/python_finder.h"
#include "common/base/file.h"

namespace pike::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPollEvery{200};
constexpr std::chrono::seconds kCheckInterval{1};
constexpr std::chrono::seconds kWaitingLineInterval{15};
// Workers end their leases in this time or are killed; what they held is done again later.
constexpr std::chrono::seconds kStopTimeout{20};
constexpr milliseconds kCallTimeout{1'000};
constexpr size_t kFirstWorker = 1;
constexpr int kUsageStatus = 2;

void Say(absl::string_view line) {
  std::cout << line << std::endl;
}

std::string MetricsText(const UpSettings& settings, const std::string& name) {
  const auto address = ReadFile(settings.runtime_dir + "/metrics/" + name, 256);
  if (!address.ok())
    return "";
  return absl::StrCat("http://", absl::StripAsciiWhitespace(*address), "/metrics");
}

// Of the installation, else as seen from the top of a checkout.
std::string ExamplesDir() {
  std::error_code error;
  const std::filesystem::path installed =
      std::filesystem::path(ProgramFolder()).parent_path() / "share/pike/examples";
  return std::filesystem::is_directory(installed, error) ? installed.string() : "examples";
}

}  // namespace

UpSupervisor::UpSupervisor(const UpSettings& settings,
                           std::optional<IdlePolicy::Limits> idle_limits, SignalInbox* signals,
                           UpMetrics* metrics)
    : settings_(settings),
      signals_(signals),
      metrics_(metrics),
      client_(settings.target, kCallTimeout),
      started_at_(MonoNow()),
      next_check_(started_at_),
      next_waiting_line_(started_at_ + kWaitingLineInterval) {
  if (idle_limits.has_value())
    idle_.emplace(*idle_limits);
  for (ChildPlan& plan : PlanChildren(settings_)) {
    Child child;
    child.plan = std::move(plan);
    children_.push_back(std::move(child));
  }
  children_.front().start_at = started_at_;
}

ExitCode UpSupervisor::Run() {
  while (phase_ != Phase::kDone) {
    for (const int signal_number : signals_->Wait(kPollEvery))
      OnSignal(signal_number);
    const MonoTime now = MonoNow();
    ReapChildren(now);
    StartDueChildren(now);
    if (!is_stopping())
      CheckService(now);
    if (is_stopping())
      AdvanceStop(now);
  }
  return exit_code_;
}

void UpSupervisor::OnSignal(int signal_number) {
  if (signal_number == SIGCHLD)
    return;
  if (!is_stopping()) {
    Say("stopping (again to kill at once)");
    BeginStop(ExitCode::kOk, MonoNow());
    return;
  }
  SignalChildren(0, SIGKILL);
}

void UpSupervisor::StartDueChildren(MonoTime now) {
  for (Child& child : children_) {
    if (is_stopping() || !child.start_at.has_value() || now < *child.start_at)
      continue;
    child.start_at.reset();
    child.started_at = now;
    auto process = ChildProcess::Start(child.plan.argv);
    if (!process.ok()) {
      PrintError(process.status().message());
      BeginStop(ExitCode::kFailure, now);
      return;
    }
    child.process = *std::move(process);
    metrics_->SetRunning(child.plan.name, true);
  }
}

void UpSupervisor::ReapChildren(MonoTime now) {
  for (Child& child : children_) {
    if (!child.process.has_value())
      continue;
    const auto end = child.process->TryReap();
    if (!end.has_value())
      continue;
    child.process.reset();
    metrics_->SetRunning(child.plan.name, false);
    if (!is_stopping())
      OnDeath(&child, *end, now);
  }
}

void UpSupervisor::OnDeath(Child* child, const ProcessEnd& end, MonoTime now) {
  const auto lived = std::chrono::duration_cast<milliseconds>(now - child->started_at);
  const std::string what = absl::StrCat(child->plan.name, " ended after ", FormatDuration(lived),
                                        " with ", end.ToText());
  if (end.signal == 0 && end.exit_status == kUsageStatus) {
    PrintError(absl::StrCat(what, ": its options are wrong (see its lines above); stopping"));
    BeginStop(ExitCode::kFailure, now);
    return;
  }
  const auto pause = child->policy.OnDeath(lived);
  if (!pause.has_value()) {
    PrintError(
        absl::StrCat(what, ", ", child->policy.young_deaths(),
                     " times in a row soon after its start: giving up (its lines above say why; "
                     "`pike doctor` looks for what is missing)"));
    BeginStop(ExitCode::kFailure, now);
    return;
  }
  PrintError(absl::StrCat(what, "; starting it again in ", FormatDuration(*pause)));
  metrics_->CountRestart(child->plan.name);
  child->start_at = now + *pause;
}

void UpSupervisor::CheckService(MonoTime now) {
  if (now < next_check_)
    return;
  next_check_ = now + kCheckInterval;
  const auto status = client_.GetStatus();
  if (!is_coordinator_up_ && status.ok()) {
    // Workers start only now: before, they would find nobody.
    is_coordinator_up_ = true;
    for (size_t i = kFirstWorker; i < children_.size(); i++)
      children_[i].start_at = now;
  }
  if (phase_ == Phase::kStarting)
    CheckReady(now);
  if (phase_ != Phase::kReady || !idle_.has_value() || !status.ok())
    return;
  if (idle_->OnStatus(status->active_evaluations(), status->ended_evaluations(), now)) {
    Say("nothing is left to do: stopping");
    BeginStop(ExitCode::kOk, now);
  }
}

void UpSupervisor::CheckReady(MonoTime now) {
  std::vector<std::string> missing;
  const auto workers =
      is_coordinator_up_
          ? client_.ListWorkers()
          : absl::StatusOr<v1::ListWorkersResponse>(absl::UnavailableError("not started"));
  if (!workers.ok()) {
    missing.push_back("coordinator");
  } else {
    for (const v1::WorkerKind kind : {v1::WORKER_KIND_COMPILE, v1::WORKER_KIND_GPU}) {
      const bool is_there =
          std::any_of(workers->workers().begin(), workers->workers().end(),
                      [kind](const v1::WorkerRecord& worker) {
                        return worker.kind() == kind && worker.state() == v1::WORKER_STATE_READY;
                      });
      if (!is_there)
        missing.push_back(WorkerKindName(kind) + " worker");
    }
  }
  if (missing.empty()) {
    phase_ = Phase::kReady;
    PrintReady(now);
  } else if (now >= next_waiting_line_) {
    next_waiting_line_ = now + kWaitingLineInterval;
    Say(absl::StrCat("still waiting for: ", absl::StrJoin(missing, ", ")));
  }
}

void UpSupervisor::BeginStop(ExitCode code, MonoTime now) {
  if (is_stopping())
    return;
  exit_code_ = code;
  phase_ = Phase::kStoppingWorkers;
  kill_at_ = now + kStopTimeout;
  for (Child& child : children_)
    child.start_at.reset();
  SignalChildren(kFirstWorker, SIGTERM);
}

void UpSupervisor::AdvanceStop(MonoTime now) {
  const size_t first = phase_ == Phase::kStoppingWorkers ? kFirstWorker : 0;
  if (HasLiveChild(first)) {
    if (now >= kill_at_) {
      PrintError("children did not stop in time: killing them");
      SignalChildren(first, SIGKILL);
      kill_at_ = now + kStopTimeout;
    }
    return;
  }
  if (phase_ == Phase::kStoppingWorkers) {
    phase_ = Phase::kStoppingCoordinator;
    kill_at_ = now + kStopTimeout;
    SignalChildren(0, SIGTERM);
    return;
  }
  phase_ = Phase::kDone;
}

bool UpSupervisor::HasLiveChild(size_t first) const {
  return std::any_of(children_.begin() + static_cast<std::ptrdiff_t>(first), children_.end(),
                     [](const Child& child) { return child.process.has_value(); });
}

void UpSupervisor::SignalChildren(size_t first, int signal_number) const {
  for (size_t i = first; i < children_.size(); i++) {
    if (children_[i].process.has_value())
      children_[i].process->Signal(signal_number);
  }
}

void UpSupervisor::PrintReady(MonoTime now) const {
  const auto took = std::chrono::duration_cast<milliseconds>(now - started_at_);
  Say(absl::StrCat("pike is ready after ", FormatDuration(took)));
  Say(absl::StrCat("  service  ", settings_.target));
  for (const Child& child : children_) {
    const std::string metrics = MetricsText(settings_, child.plan.name);
    if (!metrics.empty())
      Say(absl::StrCat("  metrics  ", metrics, "  ", child.plan.name));
  }
  Say(absl::StrCat("  state    ", settings_.state_dir));
  Say(absl::StrCat("  python   ", settings_.python));
  Say(absl::StrCat("next: pike eval ", ExamplesDir(),
                   "/tasks/01_attention.py reference   (Ctrl-C here stops the service)"));
}

}  // namespace pike::cli
