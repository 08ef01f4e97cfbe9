#include "gpu_worker/supervisor/supervisor.h"

#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "gpu_worker/core/device_fault.h"
#include "gpu_worker/core/verdict.h"
#include "gpu_worker/supervisor/confirmation.h"
#include "gpu_worker/supervisor/judge_result.h"

namespace pike::gpu {
namespace {

constexpr int kTriesMax = 2;

v1::VerdictKind ToProto(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kValid:
      return v1::VERDICT_KIND_VALID;
    case VerdictKind::kIncorrect:
      return v1::VERDICT_KIND_INCORRECT;
    case VerdictKind::kLoadError:
      return v1::VERDICT_KIND_LOAD_ERROR;
    case VerdictKind::kRuntimeError:
      return v1::VERDICT_KIND_RUNTIME_ERROR;
    case VerdictKind::kTimeout:
      return v1::VERDICT_KIND_TIMEOUT;
    case VerdictKind::kOutOfMemory:
      return v1::VERDICT_KIND_OUT_OF_MEMORY;
    case VerdictKind::kUnparsable:
      return v1::VERDICT_KIND_UNPARSABLE;
    case VerdictKind::kSuspect:
      return v1::VERDICT_KIND_SUSPECT;
    case VerdictKind::kInfra:
      return v1::VERDICT_KIND_INFRA_ERROR;
    case VerdictKind::kCancelled:
      return v1::VERDICT_KIND_CANCELLED;
  }
  return v1::VERDICT_KIND_UNSPECIFIED;
}

v1::Blame ToProto(Blame blame) {
  switch (blame) {
    case Blame::kNone:
      return v1::BLAME_UNSPECIFIED;
    case Blame::kCandidate:
      return v1::BLAME_CANDIDATE;
    case Blame::kInfrastructure:
      return v1::BLAME_INFRASTRUCTURE;
    case Blame::kTask:
      return v1::BLAME_TASK;
  }
  return v1::BLAME_UNSPECIFIED;
}

v1::Stage StageOf(Phase phase) {
  switch (phase) {
    case Phase::kLoad:
    case Phase::kFirstCall:
      return v1::STAGE_PREPARE;
    case Phase::kVerify:
      return v1::STAGE_VERIFY;
    case Phase::kMeasure:
    case Phase::kFinish:
      return v1::STAGE_MEASURE;
  }
  return v1::STAGE_UNSPECIFIED;
}

v1::Verdict VerdictOf(const Decision& decision, EvaluationReport report, bool is_cuda) {
  v1::Verdict verdict;
  verdict.set_kind(ToProto(decision.kind));
  verdict.set_reason(decision.reason);
  verdict.set_stage(StageOf(report.seen.phase));
  verdict.set_blame(ToProto(decision.blame));
  if (report.correctness)
    *verdict.mutable_correctness() = *std::move(report.correctness);
  if (report.task_report)
    *verdict.mutable_task_report() = *std::move(report.task_report);
  const bool has_samples = !report.seen.samples.candidate_claim_ns.empty();
  if (decision.kind == VerdictKind::kValid ||
      (decision.kind == VerdictKind::kSuspect && has_samples)) {
    *verdict.mutable_measurement() = MeasurementOf(report.seen.samples, is_cuda);
    verdict.mutable_measurement()->set_floor_ms(report.seen.floor_ns / 1e6);
    if (decision.kind == VerdictKind::kSuspect)
      verdict.mutable_measurement()->set_speedup_certified(0);
  }
  for (v1::BuildRecord& build : report.late_builds)
    *verdict.add_builds() = std::move(build);
  *verdict.mutable_evidence() = std::move(report.evidence);
  for (const std::string& suspicion : decision.suspicions)
    verdict.mutable_evidence()->add_suspicions(suspicion);
  return verdict;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(SupervisorOptions options,
                                                               Node* node, build::Broker* broker) {
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceLock> lock,
                   DeviceLock::Open(node->options().runtime_dir, options.device.device_id()));
  return std::unique_ptr<Supervisor>(
      new Supervisor(std::move(options), node, broker, std::move(lock)));
}

Supervisor::Supervisor(SupervisorOptions options, Node* node, build::Broker* broker,
                       std::unique_ptr<DeviceLock> lock)
    : options_(std::move(options)),
      node_(node),
      broker_(broker),
      lock_(std::move(lock)),
      benches_(options_.benches_idle_max, options_.bench_idle_time_max) {}

MonoTime Supervisor::quarantined_until() {
  MutexLock lock(&mutex_);
  return health_.quarantined_until();
}

void Supervisor::Learn(const Observation& seen, const Decision& decision) {
  const std::string& device = options_.device.device_id();
  std::chrono::seconds quarantine{0};
  {
    MutexLock lock(&mutex_);
    if (seen.event == Event::kDeviceFault)
      quarantine = health_.OnFault(MonoNow(), seen.is_process_stuck);
    else if (ShowsHealthyDevice(seen))
      health_.OnSuccess();
  }
  if (quarantine.count() == 0)
    return;
  LogError(absl::StrCat("device ", device, " is quarantined for ", quarantine.count(),
                        " s: ", decision.reason));
  // What is left of it holds contexts on the device.
  benches_.CloseAll();
  if (options_.on_quarantine)
    options_.on_quarantine(device, static_cast<double>(quarantine.count()));
}

v1::LeaseResult Supervisor::ResultOf(const Decision& decision, EvaluationReport report,
                                     const std::vector<std::string>& earlier) const {
  v1::LeaseResult result;
  *result.mutable_times() = report.times;
  if (decision.kind == VerdictKind::kInfra) {
    v1::InfraFailure* failure = result.mutable_infra_failure();
    failure->set_reason(decision.reason);
    failure->set_is_retryable(decision.is_retryable);
    failure->set_blame(ToProto(decision.blame));
    return result;
  }
  *result.mutable_verdict() = VerdictOf(decision, std::move(report), node_->is_cuda());
  v1::Evidence* evidence = result.mutable_verdict()->mutable_evidence();
  evidence->set_worker_id(options_.worker_id);
  evidence->set_device_id(options_.device.device_id());
  evidence->set_gpu_class(options_.device.gpu_class());
  evidence->set_toolchain_digest(node_->options().toolchain.toolchain.Digest());
  for (const std::string& name : node_->host()->capabilities().names)
    evidence->add_sandbox(name);
  for (const std::string& line : earlier)
    evidence->add_earlier_attempts(line);
  return result;
}

v1::LeaseResult Supervisor::Evaluate(const EvaluationRequest& request,
                                     const std::function<void(v1::Stage)>& on_stage,
                                     const std::stop_token& stop) {
  v1::LeaseResult result = EvaluateOnce(request, on_stage, stop);
  if (stop.stop_requested() || !NeedsConfirmation(result, request.best_speedup))
    return result;
  return Confirmed(result, EvaluateOnce(request, on_stage, stop));
}

v1::LeaseResult Supervisor::EvaluateOnce(const EvaluationRequest& request,
                                         const std::function<void(v1::Stage)>& on_stage,
                                         const std::stop_token& stop) {
  EvaluationContext context{node_,
                            &benches_,
                            broker_,
                            lock_.get(),
                            options_.monitor,
                            options_.jit_caches,
                            options_.device.device_id(),
                            options_.on_lock};
  std::vector<std::string> earlier;
  int tries = 0;  // with neighbours; one alone may follow
  for (;;) {
    if (tries > 0 && MonoNow() < quarantined_until())
      return ResultOf({VerdictKind::kInfra, Blame::kInfrastructure, true,
                       absl::StrCat("device ", options_.device.device_id(), " is quarantined; ",
                                    earlier.back())},
                      {}, {});
    ++tries;
    EvaluationReport report = Evaluation(context, request, on_stage, stop).Run();
    const Decision decision = Decide(report.seen);
    Learn(report.seen, decision);
    const bool is_infra = decision.kind == VerdictKind::kInfra;
    if (is_infra)
      LogWarning(absl::StrCat("evaluation failed, try ", tries, ": ", decision.reason));
    const bool needs_alone = decision.should_repeat_alone && !context.is_alone;
    const bool can_change = is_infra ? decision.is_retryable : decision.should_repeat;
    if (stop.stop_requested() || !(needs_alone || (can_change && tries < kTriesMax)))
      return ResultOf(decision, std::move(report), earlier);
    context.is_alone = context.is_alone || needs_alone;
    earlier.push_back(absl::StrCat("on the worker: ", decision.reason,
                                   needs_alone ? " (beside others: tried again alone)" : ""));
  }
}

}  // namespace pike::gpu
