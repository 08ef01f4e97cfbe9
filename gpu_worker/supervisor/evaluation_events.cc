// What happens to an evaluation while it waits: frames, builds, deadlines, and its end.

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <absl/strings/str_cat.h>

#include "common/base/text.h"
#include "common/build/build_frame.h"
#include "common/build/build_record.h"
#include "gpu_worker/supervisor/evaluation.h"
#include "gpu_worker/supervisor/json_frame.h"

namespace pike::gpu {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEndTimeout{5'000};
constexpr milliseconds kReadTimeout{5};
// From the end of its channel to the end of a runner that dies by itself.
constexpr milliseconds kGoneTimeout{2'000};
// A candidate that asks for more is refused; published ones ask for at most four.
constexpr int kBuildsMax = 64;
constexpr int kBuildsRunningMax = 4;
// Beyond the build's own limit: the queue for a slot.
constexpr milliseconds kBuildQueueTimeout{120'000};
// Builds at run time may take this many times the policy's build_timeout in all.
constexpr int kLateBuildFactor = 2;
constexpr size_t kOutputBytesMax = 16 << 10;
constexpr size_t kErrorBytesMax = 8 << 10;

void FillTail(const sandbox::CapturedOutput& output, v1::OutputTail* tail) {
  tail->set_head(EscapeUntrusted(output.head, kOutputBytesMax));
  const absl::string_view end = output.tail;
  tail->set_tail(
      EscapeUntrusted(end.substr(end.size() > kOutputBytesMax ? end.size() - kOutputBytesMax : 0),
                      kOutputBytesMax));
  tail->set_bytes_total(static_cast<uint64_t>(output.bytes_total));
}

}  // namespace

void Evaluation::Pump(MonoTime until) {
  for (const auto* load : {&candidate_load_, &reference_load_}) {
    if (*load && (*load)->At())
      until = std::min(until, *(*load)->At());
  }
  if (ask_ && ask_->At())
    until = std::min(until, *ask_->At());
  if (operation_ && operation_->watchdog.At())
    until = std::min(until, *operation_->watchdog.At());
  std::array<pollfd, 4> fds = {pollfd{wake_.get(), POLLIN, 0},
                               pollfd{bench_ ? bench_->fd() : -1, POLLIN, 0},
                               pollfd{candidate_ ? candidate_->fd() : -1, POLLIN, 0},
                               pollfd{reference_ ? reference_->fd() : -1, POLLIN, 0}};
  const auto left = std::chrono::ceil<milliseconds>(until - MonoNow()).count();
  ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 1'000)));
  if (fds[0].revents != 0) {
    wake_.Clear();
    for (FinishedBuild& finished : builds_.TakeFinished())
      OnBuildFinished(std::move(finished));
  }
  if (stop_.stop_requested()) {
    Observation seen;
    seen.event = Event::kCancelled;
    seen.phase = phase();
    See(std::move(seen));
    return;
  }
  if (fds[1].revents != 0)
    OnJudgeReadable();
  if (fds[2].revents != 0)
    OnReadable(candidate_.get());
  if (fds[3].revents != 0)
    OnReadable(reference_.get());
  CheckDeadlines();
}

void Evaluation::OnJudgeReadable() {
  absl::StatusOr<std::optional<nlohmann::json>> answer = bench_->Read(MonoNow() + kReadTimeout);
  if (!answer.ok())
    SeeJudge(Event::kProcessGone);
  else if (*answer && operation_ && operation_->phase == Phase::kMeasure &&
           TextOf(**answer, "type") == "turn")
    OnTurn(TextOf(**answer, "side") == "reference" ? Side::kReference : Side::kCandidate);
  else if (*answer)
    answer_ = *std::move(*answer);  // a copy would recurse as deep as the frame is nested
}

void Evaluation::OnReadable(RunnerLink* link) {
  RunnerNews news = link->Read();
  if (std::holds_alternative<RunnerLoaded>(news)) {
    // Said twice or during calls it means nothing.
    (link->side() == Side::kReference ? is_reference_loaded_ : is_candidate_loaded_) = true;
    if (link->side() == Side::kReference && doubtful_)
      See(*std::exchange(doubtful_, std::nullopt));
  } else if (auto* failed = std::get_if<RunnerLoadFailed>(&news)) {
    OnLoadFailed(link->side(), std::move(failed->seen));
  } else if (std::holds_alternative<RunnerGone>(news)) {
    OnGone(link);
  } else if (auto* wanted = std::get_if<RunnerWantsBuild>(&news)) {
    OnBuildWanted(link, std::move(*wanted));
  }
}

void Evaluation::OnLoadFailed(Side side, Observation seen) {
  seen.side = side;
  if (operation_ || is_jit_call_) {
    // No load is under way: the call in progress ends by the runner's death.
    OnGone(LinkOf(side));
    return;
  }
  const bool blames_others = seen.load_where == "task" || seen.load_where == "harness";
  if (side == Side::kCandidate && blames_others && !is_reference_loaded_)
    doubtful_ = std::move(seen);
  else
    See(std::move(seen));
}

void Evaluation::OnGone(RunnerLink* link) {
  if (phase_ == Phase::kFinish)
    return;  // it leaves when the judge closes its channel
  if (operation_ || is_jit_call_) {
    // The judge says what became of the call; without its frames the runner is of no use.
    link->End(MonoNow() + kGoneTimeout);
    return;
  }
  if (link->side() == Side::kCandidate && doubtful_)
    return;
  Observation seen;
  seen.event = Event::kProcessGone;
  seen.phase = phase();
  seen.side = link->side();
  See(std::move(seen));
}

void Evaluation::OnBuildWanted(RunnerLink* link, RunnerWantsBuild wanted) {
  if (!wanted.request.ok()) {
    link->Reply(build::BuildRefusedFrame(wanted.frame_id, wanted.request.status().message()), {});
    return;
  }
  if (++builds_asked_ > kBuildsMax || builds_running_ >= kBuildsRunningMax) {
    link->Reply(build::BuildRefusedFrame(wanted.frame_id, "too many builds"), {});
    return;
  }
  if (operation_ && operation_->phase == Phase::kMeasure) {
    link->Reply(build::BuildRefusedFrame(wanted.frame_id, "no builds while calls are timed"), {});
    return;
  }
  // Deadlines stand still during builds, so these have a budget of their own.
  const milliseconds build_timeout(request_.policy.build_timeout_ms());
  const auto left = std::chrono::floor<milliseconds>(kLateBuildFactor * build_timeout - building_);
  if (builds_running_ == 0 && left <= milliseconds(0)) {
    link->Reply(
        build::BuildRefusedFrame(wanted.frame_id, "the time for builds at run time is used up"),
        {});
    return;
  }
  if (builds_running_ == 0)
    building_since_ = MonoNow();
  if (PausableDeadline* load = LoadDeadlineOf(link->side()))
    load->Pause(MonoNow());
  if (operation_ && builds_running_ == 0) {
    // The device is free for others meanwhile.
    if (!bench_->Send({{"type", "hold"}}).ok())
      SeeJudge(Event::kProcessGone);
    operation_->watchdog.Pause(MonoNow());
    DropLock(&*operation_);
  }
  ++builds_running_;
  build::BuildCall call;
  call.arch = request_.arch;
  call.build_timeout = std::clamp(left, milliseconds(1), build_timeout);
  call.deadline = MonoNow() + call.build_timeout + kBuildQueueTimeout;
  call.also_toolchain_digest = request_.builds_toolchain_digest;
  builds_.Start(link->side(), wanted.frame_id, *std::move(wanted.request), std::move(call));
}

void Evaluation::OnBuildFinished(FinishedBuild finished) {
  if (--builds_running_ == 0)
    building_ += MonoNow() - building_since_;
  if (seen_)
    return;
  RunnerLink* link = LinkOf(finished.side);
  if (!finished.outcome.ok()) {
    // Not the candidate's fault, so it must not go on to fail by it.
    SeeEnvironment(phase(),
                   absl::Status(finished.outcome.status().code(),
                                absl::StrCat("late build: ", finished.outcome.status().message())));
    return;
  }
  const build::BuildOutcome& outcome = *finished.outcome;
  const bool is_known =
      outcome.artifact && (request_.built_artifacts.contains(outcome.artifact->sha256()) ||
                           known_artifacts_.contains(outcome.artifact->sha256()));
  if (finished.side == Side::kCandidate && !is_known)
    report_.late_builds.push_back(build::ToBuildRecord(outcome, finished.name, /*is_late=*/true));
  UniqueFd artifact;
  if (outcome.artifact) {
    absl::StatusOr<UniqueFd> sealed = outcome.artifact->OpenSealed();
    if (!sealed.ok()) {
      SeeEnvironment(phase(), sealed.status());
      return;
    }
    artifact = *std::move(sealed);
  }
  if (operation_ && builds_running_ == 0 && !operation_->hold) {
    if (!TakeLock(&*operation_))
      return;
    operation_->watchdog.Resume(MonoNow());
    if (!bench_->Send({{"type", "resume"}}).ok())
      SeeJudge(Event::kProcessGone);
  }
  if (PausableDeadline* load = LoadDeadlineOf(finished.side))
    load->Resume(MonoNow());
  std::vector<int> fds;
  if (artifact.is_open())
    fds.push_back(artifact.get());
  link->Reply(build::BuildReplyFrame(finished.frame_id, outcome), fds);
}

PausableDeadline* Evaluation::LoadDeadlineOf(Side side) {
  std::optional<PausableDeadline>& load =
      side == Side::kReference ? reference_load_ : candidate_load_;
  return load ? &*load : nullptr;
}

void Evaluation::CheckDeadlines() {
  ChargeFrozen();
  const MonoTime now = MonoNow();
  // Within an operation a question has its own deadline.
  const std::optional<PausableDeadline>& asked = ask_;
  const bool is_stuck =
      asked ? asked->HasPassed(now) : operation_ && operation_->watchdog.HasPassed(now);
  if (is_stuck && !answer_)
    SeeJudge(Event::kJudgeStuck);
  for (const Side side : {Side::kReference, Side::kCandidate}) {
    const bool is_loaded = side == Side::kReference ? is_reference_loaded_ : is_candidate_loaded_;
    const PausableDeadline* load = LoadDeadlineOf(side);
    if (load == nullptr || is_loaded || !load->HasPassed(now))
      continue;
    Observation seen;
    seen.event = Event::kDeadline;
    seen.phase = Phase::kLoad;
    seen.side = side;
    See(std::move(seen));
  }
}

void Evaluation::See(Observation seen) {
  if (!seen_)
    seen_ = std::move(seen);
}

void Evaluation::SeeEnvironment(Phase phase, const absl::Status& status) {
  Observation seen;
  seen.event = Event::kEnvironment;
  seen.phase = phase;
  seen.text = std::string(status.message());
  See(std::move(seen));
}

void Evaluation::SeeJudge(Event event) {
  is_bench_good_ = false;
  Observation seen;
  seen.event = event;
  seen.phase = phase();
  seen.side = Side::kJudge;
  See(std::move(seen));
}

void Evaluation::SeeTaskFailed(const nlohmann::json& frame) {
  Observation seen;
  seen.phase = phase();
  seen.event = TextOf(frame, "kind") == "device" ? Event::kDeviceFault : Event::kTaskFailed;
  seen.side = Side::kJudge;
  seen.is_memory_exception = TextOf(frame, "kind") == "memory";
  seen.error_type = TextOf(frame, "error_type");
  seen.text = TextOf(frame, "text");
  See(std::move(seen));
}

void Evaluation::SeeStuckProcess() {
  Observation seen;
  seen.event = Event::kDeviceFault;
  seen.phase = phase();
  seen.text = "a process that was killed does not end: it hangs in the driver";
  seen.is_process_stuck = true;
  seen_ = std::move(seen);
}

void Evaluation::CleanUp() {
  Observation& seen = *seen_;
  if (seen.event == Event::kJudgeStuck || seen.event == Event::kCancelled)
    is_bench_good_ = false;
  // The host's CPU has no memory of its own that neighbours could take.
  seen.has_company = party_ && !IsCpu() && party_->has_company();
  if (party_)
    report_.times.set_frozen_ms(ToMs(party_->FrozenFor(MonoNow())));
  // One that is gone may still be on its way out; everyone else is killed at once.
  for (RunnerLink* link : {candidate_.get(), reference_.get()}) {
    if (link == nullptr)
      continue;
    const bool is_going = seen.event == Event::kProcessGone && seen.side == link->side();
    link->End(is_going ? MonoNow() + kEndTimeout : MonoNow());
    if (seen.side == link->side())
      seen.process = link->Facts();
  }
  LookForDeviceFault();
  for (const RunnerLink* link : {candidate_.get(), reference_.get()}) {
    if (link != nullptr && link->is_stuck())
      SeeStuckProcess();
  }
  if (seen.event == Event::kDeviceFault)
    is_bench_good_ = false;
  if (bench_ && seen.side == Side::kJudge && seen.event == Event::kProcessGone)
    seen.process = bench_->End();
  if (bench_ && is_bench_good_ && is_begun_) {
    const std::optional<Observation> kept = std::exchange(seen_, std::nullopt);
    const bool has_ended = Ask({{"type", "end"}}, {}, kEndTimeout).has_value();
    is_bench_good_ = is_bench_good_ && has_ended;
    seen_ = kept;
  }
  if (bench_ && is_bench_good_)
    context_.benches->Put(std::move(bench_), MonoNow());
  if (bench_ && !bench_->Kill())
    SeeStuckProcess();
  bench_.reset();
  report_.seen = *seen_;
  FillEvidence();
}

void Evaluation::FillEvidence() {
  v1::Evidence& evidence = report_.evidence;
  evidence.set_error_text(EscapeUntrusted(report_.seen.text, kErrorBytesMax));
  if (!candidate_)
    return;
  const ProcessFacts facts = candidate_->Facts();
  // Reported where the process ended by itself and that ended the evaluation.
  if (report_.seen.side == Side::kCandidate && facts.exit_status)
    evidence.set_exit_status(*facts.exit_status);
  if (report_.seen.side == Side::kCandidate && facts.signal)
    evidence.set_signal(*facts.signal);
  evidence.set_memory_peak_bytes(facts.memory_peak_bytes);
  evidence.set_memory_limit_hit(facts.memory_limit_hit);
  FillTail(candidate_->Stdout(), evidence.mutable_stdout_tail());
  FillTail(candidate_->Stderr(), evidence.mutable_stderr_tail());
}

}  // namespace pike::gpu
