#include "coordinator/core/evaluation_flow.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "coordinator/core/admission_policy.h"
#include "coordinator/core/placement_policy.h"

namespace pike::coordinator {
namespace {

// Whether a worker's own verdict may end an evaluation from this kind of lease. A compile worker
// decides only what no GPU could change: no source to speak of, or builds that fail, take too long
// or too much memory. Nobody decides for the core.
bool IsFinal(LeaseKind lease, VerdictKind verdict) {
  if (verdict == VerdictKind::kInfraError || verdict == VerdictKind::kCancelled)
    return false;
  return lease == LeaseKind::kRun || verdict == VerdictKind::kUnparsable ||
         verdict == VerdictKind::kLoadError || verdict == VerdictKind::kTimeout ||
         verdict == VerdictKind::kOutOfMemory;
}

std::string WhyUnserved(const Service& service, bool is_compile, Milliseconds unserved) {
  const char* kind = is_compile ? "compile" : "GPU";
  if (service.draining > 0)
    return absl::StrCat("no worker: all that could take it (", service.draining, " ", kind,
                        ") have been draining for ", unserved.count(), " ms");
  if (!service.has_target)
    return absl::StrCat("no worker: no GPU worker to compile for was connected for ",
                        unserved.count(), " ms");
  return absl::StrCat("no worker: no ", kind, " worker that could take it was connected for ",
                      unserved.count(), " ms");
}

}  // namespace

void EvaluationFlow::Submit(const EvaluationSubmitted& event) {
  const ClientKeyKept* kept =
      state_.evaluations.client_keys().Find(event.principal, event.client_key);
  if (kept != nullptr && kept->request_digest != event.request_digest)
    return Refuse(
        event, Refusal::kAlreadyExists,
        absl::StrCat("client_key '", event.client_key, "' was used with another request, by ",
                     ToText(kept->evaluation_id)));
  if (kept != nullptr) {
    state_.Emit(AnswerSubmit{event.request, SubmitOutcome::kRepeated, kept->evaluation_id,
                             Refusal::kNone, ""});
    return;
  }
  if (const auto why = WhyImpossible(event.demand, state_.workers.all(), state_.options))
    return Refuse(event, Refusal::kFailedPrecondition, *why);
  if (const auto why = WhyFull(event.principal, state_.evaluations, state_.options))
    return Refuse(event, Refusal::kResourceExhausted, *why);

  const EvaluationId id{state_.evaluations_accepted + 1};
  state_.Commit(EvaluationAccepted{id, event.principal, event.client_key, event.request_digest,
                                   event.demand, event.times, event.payload, state_.WallNow(),
                                   event.contest});
  state_.evaluations.StartQueueClock(id, state_.now);
  state_.Emit(AnswerSubmit{event.request, SubmitOutcome::kAccepted, id, Refusal::kNone, ""});
  Notify(id);
}

void EvaluationFlow::Cancel(const CancelRequested& event) {
  const Evaluation* evaluation = state_.evaluations.Find(event.evaluation_id);
  const bool was_active = evaluation != nullptr;
  if (was_active) {
    if (evaluation->lease.has_value()) {
      builds_.DropRun(evaluation->lease->lease.lease_id);
      state_.RevokeLease(evaluation->lease->lease.lease_id);
    }
    End(event.evaluation_id,
        CoreVerdict{VerdictKind::kCancelled, "cancelled by its owner", evaluation->stage,
                    Blame::kNobody},
        "");
  }
  state_.Emit(AnswerCancel{event.request, event.evaluation_id, was_active});
}

void EvaluationFlow::TakeOutcome(const Lease& lease, const LeaseResultReceived& event) {
  if (const auto* failed = std::get_if<InfraFailed>(&event.outcome))
    return FailAttempt(
        lease, {RetryReason::kInfraFailure, failed->reason, failed->is_retryable, failed->blame});
  const auto* verdict = std::get_if<VerdictReached>(&event.outcome);
  if (verdict != nullptr && IsFinal(lease.kind, verdict->kind)) {
    builds_.DropRun(lease.ref.lease_id);
    return End(lease.evaluation_id,
               WorkerVerdict{verdict->kind, verdict->payload, lease.worker_id, verdict->speedup,
                             state_.workers.Find(lease.worker_id)->certificate},
               event.times_payload);
  }
  if (lease.kind == LeaseKind::kCompile && std::holds_alternative<CompileFinished>(event.outcome))
    return FinishCompile(lease, event);
  FailAttempt(lease, {RetryReason::kMalformedResult,
                      verdict != nullptr
                          ? absl::StrCat("the worker may not decide ", Name(verdict->kind), " here")
                          : "the outcome does not fit the lease"});
}

void EvaluationFlow::FinishCompile(const Lease& lease, const LeaseResultReceived& event) {
  const EvaluationId id = lease.evaluation_id;
  const Evaluation* evaluation = state_.evaluations.Find(id);
  state_.Commit(CompileStageDone{lease.ref, id, evaluation->lease->target,
                                 std::get<CompileFinished>(event.outcome).builds_payload,
                                 event.times_payload, state_.WallNow()});
  state_.evaluations.StartQueueClock(id, state_.now);
  Notify(id);
}

void EvaluationFlow::FailAttempt(const Lease& lease, const Failure& failure) {
  const EvaluationId id = lease.evaluation_id;
  const Evaluation* evaluation = state_.evaluations.Find(id);
  PIKE_CHECK(evaluation != nullptr && evaluation->lease->lease == lease.ref);
  builds_.DropRun(lease.ref.lease_id);
  const Stage stage = evaluation->stage;
  const std::string line = state_.CutReason(
      absl::StrCat(Name(stage), " attempt ", lease.ref.attempt, " at ", lease.worker_id.value, ": ",
                   Name(failure.reason), ": ", failure.text));
  if (!failure.is_retryable)
    return End(id, CoreVerdict{VerdictKind::kInfraError, line, stage, failure.blame}, "");
  if (lease.ref.attempt >= state_.options.attempts_max)
    return End(id,
               CoreVerdict{VerdictKind::kInfraError,
                           absl::StrCat("no verdict after ", lease.ref.attempt,
                                        " attempts; the last: ", line),
                           stage, failure.blame},
               "");
  state_.Commit(AttemptFailed{lease.ref, id, line, state_.WallNow()});
  state_.evaluations.StartQueueClock(id, state_.now);
  const Milliseconds delay = RetryDelay(state_.options, lease.ref.attempt);
  if (delay.count() > 0)
    state_.evaluations.HoldBack(id, state_.now + delay);
  state_.Emit(CountRetry{failure.reason});
  Notify(id);
}

void EvaluationFlow::Withdraw(EvaluationId id, const std::string& reason) {
  const WorkerId worker_id = state_.verdicts.Find(id)->worker_id;
  state_.Commit(VerdictWithdrawn{
      id, state_.CutReason(absl::StrCat("verdict of ", worker_id.value, " withdrawn: ", reason)),
      state_.WallNow()});
  state_.evaluations.StartQueueClock(id, state_.now);
  Notify(id);
}

void EvaluationFlow::TakeQueueDeadline(EvaluationId id) {
  const Evaluation* evaluation = state_.evaluations.Find(id);
  PIKE_CHECK(evaluation != nullptr && evaluation->is_queued());
  const bool is_compile = evaluation->stage == Stage::kQueuedCompile;
  const Need need = evaluation->need();
  const Workers& workers = state_.workers.all();
  const Service service = is_compile ? CompileService(workers, need.demand)
                                     : RunService(workers, need.demand, need.target);
  const MonoTime since =
      service.is_served ? state_.now : std::max(evaluation->unserved_since, service.until);
  if (state_.now - since < evaluation->accepted.times.queue_timeout)
    return state_.evaluations.SetUnservedSince(id, since);
  const auto unserved = std::chrono::duration_cast<Milliseconds>(state_.now - since);
  End(id,
      CoreVerdict{VerdictKind::kInfraError, WhyUnserved(service, is_compile, unserved),
                  evaluation->stage, Blame::kInfrastructure},
      "");
}

void EvaluationFlow::Notify(EvaluationId id) {
  const Evaluation* evaluation = state_.evaluations.Find(id);
  state_.Emit(NotifyStage{id, evaluation->stage, state_.evaluations.QueuePosition(*evaluation),
                          evaluation->attempts});
}

void EvaluationFlow::Refuse(const EvaluationSubmitted& event, Refusal refusal,
                            std::string message) {
  state_.Emit(
      AnswerSubmit{event.request, SubmitOutcome::kRefused, {}, refusal, std::move(message)});
}

void EvaluationFlow::End(EvaluationId id, std::variant<WorkerVerdict, CoreVerdict> verdict,
                         const std::string& times_payload) {
  const Evaluation* evaluation = state_.evaluations.Find(id);
  PIKE_CHECK(evaluation != nullptr);
  const VerdictKind kind = std::visit([](const auto& v) { return v.kind; }, verdict);
  EndEvaluation end;
  end.evaluation_id = id;
  end.verdict = std::move(verdict);
  end.payload = evaluation->accepted.payload;
  end.principal = evaluation->accepted.principal;
  end.client_key = evaluation->accepted.client_key;
  end.attempt = evaluation->attempts;
  end.earlier_attempts = evaluation->earlier_attempts;
  const bool is_compiled = evaluation->compiled.has_value();
  if (is_compiled) {
    end.builds_payload = evaluation->compiled->builds_payload;
    end.compile_times_payload = evaluation->compiled->times_payload;
  }
  (is_compiled ? end.run_times_payload : end.compile_times_payload) = times_payload;
  end.queued_compile = evaluation->queued_compile;
  end.queued_run = evaluation->queued_run;
  if (evaluation->is_queued()) {
    const auto waited =
        std::chrono::duration_cast<Milliseconds>(state_.now - evaluation->queued_since);
    (is_compiled ? end.queued_run : end.queued_compile) += waited;
    state_.Emit(ObserveQueueWait{evaluation->stage, waited});
  }
  end.submitted_unix_ms = evaluation->accepted.submitted_unix_ms;
  end.ended_unix_ms = state_.WallNow();
  EvaluationEnded record{id, kind, end.ended_unix_ms};
  const auto* decided = std::get_if<WorkerVerdict>(&end.verdict);
  if (decided != nullptr && kind == VerdictKind::kValid) {
    record.gpu_class = state_.workers.Find(decided->worker_id)->facts.gpu_class;
    record.speedup = decided->speedup;
  }
  const bool is_run = evaluation->lease.has_value() && evaluation->lease->kind == LeaseKind::kRun;
  if (decided != nullptr && is_run && !state_.options.canaries.empty())
    record.kept_of = decided->worker_id;
  state_.Commit(record);
  state_.Emit(std::move(end));
}

}  // namespace pike::coordinator
