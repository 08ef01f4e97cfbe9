#include "gpu_worker/supervisor/evaluation.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "gpu_worker/core/clocks.h"
#include "gpu_worker/core/floor.h"
#include "gpu_worker/core/verdict.h"
#include "gpu_worker/supervisor/json_frame.h"
#include "gpu_worker/supervisor/judge_result.h"

namespace pike::gpu {
namespace {

using std::chrono::milliseconds;

// What the judge may take beyond the deadlines it enforces itself.
constexpr milliseconds kJudgeGrace{30'000};
constexpr milliseconds kPumpMax{1'000};
// Timing waits this long for the start of a warm sandbox to end, and looks this often.
constexpr milliseconds kStartTimeout{20'000};
constexpr milliseconds kStartStep{20};
constexpr int kMeasurementsMax = 3;
constexpr int kRunnersMax = 3;  // for one side, of those that die before they are told anything

milliseconds Ms(uint32_t value) {
  return milliseconds(value);
}

// Whether measuring again is of no use.
bool HaveSpoken(const Samples& samples, double floor_ns) {
  return !IsComplete(samples) || !FindImpossibleClaims(samples).empty() ||
         (CheckClocks(WithoutHiccups(samples)).AreAgreed() && !IsBelowFloor(samples, floor_ns));
}

}  // namespace

Evaluation::Evaluation(const EvaluationContext& context, const EvaluationRequest& request,
                       std::function<void(v1::Stage)> on_stage, std::stop_token stop)
    : context_(context),
      request_(request),
      on_stage_(std::move(on_stage)),
      stop_(std::move(stop)),
      builds_(context.broker, &wake_) {}

EvaluationReport Evaluation::Run() {
  const std::stop_callback wake(stop_, [this] { wake_.Wake(); });
  EnterDevice();
  if (!seen_)
    Prepare();
  if (!seen_)
    Verify();
  // A host that is busy elsewhere can make the clocks disagree; a lie stays one.
  for (int i = 0; i < kMeasurementsMax && !seen_; ++i) {
    if (i > 0)
      PrepareInputs(request_.policy.warmup_calls() + request_.policy.timed_calls_max());
    Measure();
    if (!seen_ && HaveSpoken(report_.seen.samples, floor_ns_))
      break;
  }
  if (!seen_)
    Finish();
  CleanUp();
  return std::move(report_);
}

void Evaluation::Prepare() {
  const v1::Policy& policy = request_.policy;
  const MonoTime start = MonoNow();
  on_stage_(v1::STAGE_PREPARE);
  OpenBench();
  if (!seen_)
    CheckTask();
  RecordInterval("setup", start);
  if (!seen_)
    FillCaches();
  const MonoTime filled = MonoNow();
  if (!seen_)
    LoadRunners();
  if (!seen_)
    PrepareInputs(1 + policy.correctness_trials());
  RecordInterval("setup", filled);
  // The judge's own reference runs beside the two runners in each call.
  if (!seen_)
    Operate(Phase::kFirstCall, "first_call", {{"type", "first_call"}},
            Ms(policy.first_call_timeout_ms()) * 2 + Ms(policy.call_timeout_ms()) + kJudgeGrace);
  report_.times.set_prepare_ms(ToMs(MonoNow() - start) - report_.times.lock_wait_ms());
}

void Evaluation::Verify() {
  const v1::Policy& policy = request_.policy;
  const MonoTime start = MonoNow();
  const double waited = report_.times.lock_wait_ms();
  on_stage_(v1::STAGE_VERIFY);
  Operate(Phase::kVerify, "verify", {{"type", "verify"}, {"calls", policy.correctness_trials()}},
          Ms(policy.call_timeout_ms()) * 3 * policy.correctness_trials() + kJudgeGrace);
  const MonoTime verified = MonoNow();
  if (!seen_) {
    PrepareInputs(policy.warmup_calls() + policy.timed_calls_max());
    RecordInterval("setup", verified);
  }
  report_.times.set_verify_ms(ToMs(MonoNow() - start) - (report_.times.lock_wait_ms() - waited));
}

void Evaluation::Measure() {
  const v1::Policy& policy = request_.policy;
  // An import of torch beside a timed call would be measured, too. On a GPU imports keep off the
  // reserved cores, or none begins while the lock is held.
  std::optional<Node::Quiet> no_starts;
  if (IsCpu())
    no_starts.emplace(context_.node);
  const MonoTime settled_by = MonoNow() + kStartTimeout;
  while (!seen_ && IsCpu() && context_.node->IsStarting() && MonoNow() < settled_by)
    Pump(MonoNow() + kStartStep);
  if (seen_)
    return;
  for (RunnerLink* link : {candidate_.get(), reference_.get()})
    link->KeepCallerOnOneCore();
  const MonoTime start = MonoNow();
  const double waited = report_.times.lock_wait_ms();
  on_stage_(v1::STAGE_MEASURE);
  Operate(Phase::kMeasure, "measure",
          {{"type", "measure"},
           {"warmup_calls", policy.warmup_calls()},
           {"timed_calls_max", policy.timed_calls_max()},
           {"timed_ms_max", policy.timed_ms_max()},
           {"turns", true}},
          Ms(policy.call_timeout_ms()) * 3 * (policy.warmup_calls() + 1) +
              Ms(policy.timed_ms_max()) * 8 + kJudgeGrace);
  report_.times.set_measure_ms(report_.times.measure_ms() + ToMs(MonoNow() - start) -
                               (report_.times.lock_wait_ms() - waited));
}

void Evaluation::OpenBench() {
  if (context_.is_alone)
    context_.benches->CloseAll();
  bench_ = context_.benches->Take(request_.task.version);
  if (bench_) {
    bench_->Join(party_->id());
    return;
  }
  absl::StatusOr<sandbox::WarmSandbox> warm =
      context_.node->TakeJudge(MonoNow() + context_.node->options().ready_timeout, stop_);
  if (!warm.ok()) {
    SeeEnvironment(Phase::kLoad, warm.status());
    return;
  }
  bench_ = std::make_unique<Bench>(context_.node, request_.task.version, *std::move(warm));
  bench_->Join(party_->id());
  const absl::Status handed = bench_->HandIn(request_.task);
  if (!handed.ok()) {
    SeeEnvironment(Phase::kLoad, handed);
    return;
  }
  OpenTask();
}

void Evaluation::OpenTask() {
  const milliseconds timeout = Ms(request_.policy.load_timeout_ms()) +
                               Ms(request_.policy.first_call_timeout_ms()) + kJudgeGrace;
  const std::optional<nlohmann::json> answer =
      Ask({{"type", "open_task"},
           {"path", absl::StrCat(kInsideInputDir, "/task.py")},
           {"weight_seed", request_.task.weight_seed},
           {"entry", request_.task.entry_reference}},
          {}, timeout);
  if (!answer)
    return;
  if (TextOf(*answer, "type") != "task_ready") {
    is_bench_good_ = false;
    SeeTaskFailed(*answer);
    return;
  }
  bench_->facts.has_device_frames = answer->contains("device");
  bench_->facts.reference_ms = NumberOf(*answer, "reference_ms");
  bench_->facts.device_memory_free_bytes =
      CountOf(MemberOf(*answer, "device"), "memory_free_bytes");
  const std::string why_memfd = TextOf(MemberOf(*answer, "device"), "why_memfd");
  if (!why_memfd.empty())
    LogWarning(absl::StrCat("tensors go to and from ", context_.device_id,
                            " through host memory: ", EscapeLine(why_memfd)));
  bench_->facts.device_bytes_per_s = NumberOf(MemberOf(*answer, "device"), "bytes_per_s");
  bench_->KeepOnReservedCores();
}

bool Evaluation::TakeRunner(Side side, const UniqueFd& call_channel,
                            std::unique_ptr<RunnerLink>* link) {
  const bool is_candidate = side == Side::kCandidate;
  // The reference always gets the node's own limit: it is the task's, not the policy's, subject.
  const int64_t limit =
      std::min(context_.node->options().runner_memory_bytes_max,
               static_cast<int64_t>(is_candidate ? request_.policy.memory_bytes_max() : 0));
  LoadOrder order;
  order.source = is_candidate ? request_.candidate_source : request_.task.source;
  order.entries = is_candidate ? std::vector<std::string>{"ModelNew", "Model"}
                               : std::vector<std::string>{request_.task.entry_reference};
  order.task_source = request_.task.source;
  order.weight_seed = request_.task.weight_seed;
  // One that died while it waited warm knows nothing of the candidate yet and is replaced.
  absl::Status sent;
  for (int i = 0; i < kRunnersMax && (i == 0 || absl::IsOutOfRange(sent)); ++i) {
    absl::StatusOr<sandbox::WarmSandbox> warm =
        context_.node->TakeRunner(limit, MonoNow() + context_.node->options().ready_timeout, stop_);
    if (!warm.ok()) {
      SeeEnvironment(Phase::kLoad, warm.status());
      return false;
    }
    *link = std::make_unique<RunnerLink>(side, context_.node, *std::move(warm));
    (*link)->Join(party_->id());
    if (is_candidate)
      HandCachesOn(*(*link)->sandbox());
    sent = (*link)->Load(order, call_channel);
  }
  if (!sent.ok()) {
    SeeEnvironment(Phase::kLoad, sent);
    return false;
  }
  (is_candidate ? candidate_load_ : reference_load_)
      .emplace(MonoNow(), Ms(request_.policy.load_timeout_ms()));
  return true;
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> Evaluation::CallChannel() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return ErrnoStatus(errno, "socketpair");
  return std::make_pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

void Evaluation::LoadRunners() {
  absl::StatusOr<std::pair<UniqueFd, UniqueFd>> candidate_channel = CallChannel();
  absl::StatusOr<std::pair<UniqueFd, UniqueFd>> reference_channel = CallChannel();
  for (const absl::Status& status : {candidate_channel.status(), reference_channel.status()}) {
    if (!status.ok()) {
      SeeEnvironment(Phase::kLoad, status);
      return;
    }
  }
  if (!TakeRunner(Side::kReference, reference_channel->second, &reference_) ||
      !TakeRunner(Side::kCandidate, candidate_channel->second, &candidate_))
    return;
  // Only the runners hold their ends now: their death is an end of file for the judge.
  candidate_channel->second.Reset();
  reference_channel->second.Reset();
  while (!seen_ && !(is_candidate_loaded_ && is_reference_loaded_))
    Pump(MonoNow() + kPumpMax);
  cache_.Reset();
  kept_cache_.reset();
  candidate_load_.reset();
  reference_load_.reset();
  candidate_->KeepOnReservedCores();
  reference_->KeepOnReservedCores();
  if (!seen_)
    Begin({std::move(candidate_channel->first), std::move(reference_channel->first)});
}

void Evaluation::Begin(std::pair<UniqueFd, UniqueFd> judge_ends) {
  const v1::Policy& policy = request_.policy;
  const std::optional<nlohmann::json> answer =
      Ask(BeginRequest(), {judge_ends.first.get(), judge_ends.second.get()},
          Ms(policy.load_timeout_ms()) + kJudgeGrace);
  if (!answer)
    return;
  is_begun_ = true;
  if (TextOf(*answer, "type") != "begun")
    SeeTaskFailed(*answer);
}

void Evaluation::Operate(Phase phase, const char* name, nlohmann::json request,
                         milliseconds watchdog) {
  phase_ = phase;
  // A thread of the candidate may be waiting for one.
  while (!seen_ && builds_running_ > 0)
    Pump(MonoNow() + kPumpMax);
  if (seen_)
    return;
  operation_.emplace(phase, name, PausableDeadline(MonoNow(), watchdog));
  if (!TakeLock(&*operation_)) {
    operation_.reset();
    return;
  }
  if (phase == Phase::kMeasure) {
    const uint64_t memory_floor_bytes = LookAtGpu(/*is_before=*/true);
    if (!seen_)
      Settle(memory_floor_bytes);
  }
  operation_->watchdog = PausableDeadline(MonoNow(), watchdog);
  answer_.reset();
  if (!seen_ && !bench_->Send(request).ok())
    SeeJudge(Event::kProcessGone);
  while (!seen_ && !answer_)
    Pump(MonoNow() + kPumpMax);
  if (phase == Phase::kMeasure) {
    EndTurns();
    LookAtGpu(/*is_before=*/false);
  }
  DropLock(&*operation_);
  RecordLock(*operation_);
  operation_.reset();
  if (!answer_) {
    is_bench_good_ = false;  // it is in the middle of something
    return;
  }
  Observation seen = ObservationOfResult(*answer_, phase);
  if (answer_->contains("correctness"))
    report_.correctness = CorrectnessOfResult(*answer_);
  answer_.reset();
  seen.samples.protocol_slack = IsCpu() ? kCpuProtocolSlack : kGpuProtocolSlack;
  report_.seen.samples = seen.samples;
  if (seen.event != Event::kDone)
    See(std::move(seen));
}

void Evaluation::Finish() {
  phase_ = Phase::kFinish;
  const std::optional<nlohmann::json> answer = Ask({{"type", "end"}}, {}, kJudgeGrace);
  if (!answer)
    return;
  is_begun_ = false;
  Observation seen;
  seen.phase = Phase::kFinish;
  seen.event = Event::kDone;
  seen.text = TextOf(*answer, "violation");
  if (!seen.text.empty()) {
    seen.event = Event::kViolation;
    seen.side = Side::kCandidate;
  }
  seen.samples = report_.seen.samples;
  seen.floor_ns = floor_ns_;
  See(std::move(seen));
}

std::optional<nlohmann::json> Evaluation::Ask(const nlohmann::json& request,
                                              const std::vector<int>& fds, milliseconds timeout) {
  answer_.reset();
  if (!bench_->Send(request, fds).ok()) {
    SeeJudge(Event::kProcessGone);
    return std::nullopt;
  }
  ask_.emplace(MonoNow(), timeout);
  while (!seen_ && !answer_)
    Pump(MonoNow() + kPumpMax);
  ask_.reset();
  if (!answer_)
    is_bench_good_ = false;  // it is in the middle of something
  return std::exchange(answer_, std::nullopt);
}

}  // namespace pike::gpu
