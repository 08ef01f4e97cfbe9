#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/build/broker.h"
#include "gpu_worker/core/observation.h"
#include "gpu_worker/core/pausable_deadline.h"
#include "gpu_worker/supervisor/bench.h"
#include "gpu_worker/supervisor/device_lock.h"
#include "gpu_worker/supervisor/late_builds.h"
#include "gpu_worker/supervisor/node.h"
#include "gpu_worker/supervisor/runner_link.h"
#include "gpu_worker/supervisor/wake_fd.h"
#include "pike/v1/types.pb.h"

namespace pike::gpu {

// One candidate to check and time.
struct EvaluationRequest {
  TaskFile task;
  std::string candidate_source;
  v1::Policy policy;                      // complete
  std::string arch;                       // of late builds
  std::string builds_toolchain_digest;    // of the compile stage's builds; empty if there were none
  std::set<std::string> built_artifacts;  // digests of those builds: asking for them is not late
};

// What evaluations of one device share. All outlive them.
struct EvaluationContext {
  Node* node = nullptr;
  BenchShelf* benches = nullptr;
  build::Broker* broker = nullptr;
  DeviceLock* lock = nullptr;
  // Called with "first_call", "verify" or "measure", and seconds. May be empty.
  std::function<void(absl::string_view operation, double wait_s, double held_s)> on_lock;
};

// What an evaluation found out.
struct EvaluationReport {
  Observation seen;  // what ended it
  std::optional<v1::Correctness> correctness;
  v1::StageTimes times;
  std::vector<v1::BuildRecord> late_builds;
  v1::Evidence evidence;  // of the candidate's process
};

// One attempt at one candidate, from warm sandboxes to the death of its runners. Single use, run by
// one thread. It ends, whatever the candidate, the task or a process of ours does: every wait has a
// deadline, and the device lock is held during an operation only.
class Evaluation {
 public:
  Evaluation(const EvaluationContext& context, const EvaluationRequest& request,
             std::function<void(v1::Stage)> on_stage, std::stop_token stop);

  EvaluationReport Run();

 private:
  // An operation of the judge that is under way.
  struct Operation {
    Phase phase;
    const char* name;
    PausableDeadline watchdog;
    std::optional<DeviceLock::Hold> hold;
    std::chrono::nanoseconds waited{};
    std::chrono::nanoseconds held{};
  };

  // Each returns once its step is done or `seen_` is set.
  void OpenBench();
  void LoadRunners();
  void Begin(std::pair<UniqueFd, UniqueFd> judge_ends);
  void Operate(Phase phase, const char* name, nlohmann::json request,
               std::chrono::milliseconds watchdog);
  void Finish();

  bool TakeRunner(Side side, const UniqueFd& call_channel, std::unique_ptr<RunnerLink>* link);
  // Waits for what happens next, until `until` at most, and handles it.
  void Pump(MonoTime until);
  void OnReadable(RunnerLink* link);
  void OnLoadFailed(Side side, Observation seen);
  void OnGone(RunnerLink* link);
  void OnBuildWanted(RunnerLink* link, RunnerWantsBuild wanted);
  void OnBuildFinished(FinishedBuild finished);
  void OnJudgeReadable();
  void CheckDeadlines();
  std::optional<nlohmann::json> Ask(const nlohmann::json& request, const std::vector<int>& fds,
                                    std::chrono::milliseconds timeout);

  bool TakeLock(Operation* operation);
  void DropLock(Operation* operation);
  void RecordLock(const Operation& operation);
  // Ends the evaluation with this, unless something ended it before.
  void See(Observation seen);
  void SeeEnvironment(Phase phase, const absl::Status& status);
  void SeeJudge(Event event);
  void CleanUp();
  void FillEvidence();
  Phase phase() const { return operation_ ? operation_->phase : phase_; }
  RunnerLink* LinkOf(Side side) const {
    return side == Side::kReference ? reference_.get() : candidate_.get();
  }
  PausableDeadline* LoadDeadlineOf(Side side);

  const EvaluationContext context_;
  const EvaluationRequest& request_;
  const std::function<void(v1::Stage)> on_stage_;
  const std::stop_token stop_;

  WakeFd wake_;
  EvaluationReport report_;
  std::optional<Observation> seen_;
  // A candidate's claim that the task or the harness failed, until the reference's runner has
  // spoken.
  std::optional<Observation> doubtful_;
  Phase phase_ = Phase::kLoad;
  std::unique_ptr<Bench> bench_;
  std::unique_ptr<RunnerLink> candidate_;
  std::unique_ptr<RunnerLink> reference_;
  bool is_candidate_loaded_ = false;
  bool is_reference_loaded_ = false;
  bool is_begun_ = false;
  bool is_bench_good_ = true;
  std::optional<PausableDeadline> candidate_load_;
  std::optional<PausableDeadline> reference_load_;
  std::optional<Operation> operation_;
  std::optional<nlohmann::json> answer_;
  int builds_asked_ = 0;
  int builds_running_ = 0;
  MonoTime building_since_{};            // of the builds that run
  std::chrono::nanoseconds building_{};  // while at least one ran, in all
  LateBuilds builds_;                    // last: its threads wake `wake_`
};

}  // namespace pike::gpu
