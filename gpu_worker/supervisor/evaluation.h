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
#include "common/device/gpu.h"
#include "common/sandbox/host_quiet.h"
#include "gpu_worker/core/observation.h"
#include "gpu_worker/core/pausable_deadline.h"
#include "gpu_worker/core/precision.h"
#include "gpu_worker/supervisor/bench.h"
#include "gpu_worker/supervisor/device_lock.h"
#include "gpu_worker/supervisor/jit_caches.h"
#include "gpu_worker/supervisor/late_builds.h"
#include "gpu_worker/supervisor/node.h"
#include "gpu_worker/supervisor/quiet_gate.h"
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
  double best_speedup = 0;                // of the task that is known; 0: none is
};

// What evaluations of one device share. All outlive them.
struct EvaluationContext {
  Node* node = nullptr;
  BenchShelf* benches = nullptr;
  build::Broker* broker = nullptr;
  DeviceLock* lock = nullptr;
  device::GpuMonitor* monitor = nullptr;  // null where there is no GPU
  JitCaches* jit_caches = nullptr;        // null: none are kept
  std::string device_id;
  // Called with the device, "first_call", "verify" or "measure", and seconds. May be empty.
  std::function<void(const std::string& device, absl::string_view operation, double wait_s,
                     double held_s)>
      on_lock;
  // No other evaluation, nor an idle judge, is on the device meanwhile.
  bool is_alone = false;
};

// What an evaluation found out.
struct EvaluationReport {
  Observation seen;  // what ended it
  std::optional<v1::Correctness> correctness;
  std::optional<v1::TaskReport> task_report;
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
    Operation(Phase its_phase, const char* its_name, PausableDeadline deadline)
        : phase(its_phase), name(its_name), watchdog(deadline) {}

    const Phase phase;
    const char* const name;
    PausableDeadline watchdog;
    std::optional<DeviceLock::Hold> hold;
    std::optional<Node::Quiet> no_starts;             // of kMeasure
    std::optional<sandbox::HostQuiet> no_neighbours;  // of kMeasure: builds of other processes
    std::optional<QuietGate::Timing> timing;          // of kMeasure: all others stand still
    MonoTime since{};                                 // it has the device
    std::chrono::nanoseconds waited{};
    std::chrono::nanoseconds held{};
  };

  // Each returns once its step is done or `seen_` is set.
  void EnterDevice();
  void Prepare();
  void Verify();
  void Measure();
  void OpenBench();
  void OpenTask();
  // Finds out what the task can tell apart, once for a bench and its tolerances.
  void CheckTask();
  std::optional<nlohmann::json> AskForCheck();
  nlohmann::json BeginRequest() const;
  void FillCaches();
  std::string JitDigest() const;
  void ForgetFirstRunner();
  // Puts what the first runner compiled where this one, which has loaded nothing yet, looks for it.
  void HandCachesOn(const sandbox::Sandbox& to);
  void LoadRunners();
  void Begin(std::pair<UniqueFd, UniqueFd> judge_ends);
  void Operate(Phase phase, const char* name, nlohmann::json request,
               std::chrono::milliseconds watchdog);
  void Finish();
  // Makes inputs ahead, outside the lock. What it cannot make is made in the calls.
  void PrepareInputs(uint32_t calls);
  // Waits in an operation until the device is at rest and so much of its memory is free. If it does
  // not come to that, finds out whose work it is.
  void Settle(uint64_t memory_floor_bytes);
  // One such wait, told in the evidence. False with `seen_` set: the judge could not say.
  bool IsAtRest(uint64_t memory_floor_bytes);

  static absl::StatusOr<std::pair<UniqueFd, UniqueFd>> CallChannel();
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
  // Extends what runs by the time in which this evaluation stood still.
  void ChargeFrozen();
  std::optional<nlohmann::json> Ask(const nlohmann::json& request, const std::vector<int>& fds,
                                    std::chrono::milliseconds timeout);

  bool TakeLock(Operation* operation);
  void DropLock(Operation* operation);
  bool BeginTiming(Operation* operation);
  // Lets the runner of `side` run, makes the other stand still, and tells the judge.
  void OnTurn(Side side);
  // Lets both run.
  void EndTurns();
  void RecordLock(const Operation& operation);
  void RecordInterval(const char* operation, MonoTime start);
  // Into the evidence: the GPU before or after the timing. Others that compute on it, or memory
  // errors meanwhile, void it. Returns what must be free of its memory, 0 if not known.
  uint64_t LookAtGpu(bool is_before);
  // Nothing, and a device fault seen, if it cannot be read.
  std::optional<device::GpuReading> ReadGpu();
  // Ends the evaluation with this, unless something ended it before.
  void See(Observation seen);
  void SeeEnvironment(Phase phase, const absl::Status& status);
  void SeeJudge(Event event);
  void SeeTaskFailed(const nlohmann::json& frame);
  // A process of this evaluation that was killed did not go: the device's driver is in disorder,
  // whatever else was seen.
  void SeeStuckProcess();
  // Into the evidence: the GPU's errors since the start. What a failing GPU did to the candidate is
  // not held against it.
  void LookForDeviceFault();
  void CleanUp();
  void FillEvidence();
  bool IsCpu() const { return context_.device_id == "cpu"; }
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
  uint64_t xids_before_ = 0;  // that the GPU had at the start
  // Before the processes, which are its members.
  std::unique_ptr<QuietGate::Party> party_;
  std::chrono::nanoseconds frozen_charged_{};
  std::unique_ptr<Bench> bench_;
  std::unique_ptr<RunnerLink> candidate_;
  std::unique_ptr<RunnerLink> reference_;
  std::vector<PrecisionError> precision_bounds_;
  std::optional<PrecisionError> least_precision_;  // that the policy asks for
  double floor_ns_ = 0;                            // of one call; 0: not known
  bool is_candidate_loaded_ = false;
  bool is_reference_loaded_ = false;
  bool is_begun_ = false;
  bool is_jit_call_ = false;  // a runner's death is the judge's to report
  // What the first runner of this evaluation, or of an earlier one of the same candidate, compiled.
  UniqueFd cache_;
  std::shared_ptr<const JitCaches::Entry> kept_cache_;
  std::set<std::string> known_artifacts_;
  bool is_bench_good_ = true;
  std::optional<PausableDeadline> candidate_load_;
  std::optional<PausableDeadline> reference_load_;
  std::optional<PausableDeadline> ask_;
  std::optional<Operation> operation_;
  std::optional<nlohmann::json> answer_;
  int builds_asked_ = 0;
  int builds_running_ = 0;
  MonoTime building_since_{};            // of the builds that run
  std::chrono::nanoseconds building_{};  // while at least one ran, in all
  LateBuilds builds_;                    // last: its threads wake `wake_`
};

}  // namespace pike::gpu
