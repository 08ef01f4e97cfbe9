#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/record.h"
#include "coordinator/core/types.h"

// Everything the core can ask of its shell, in the imperative. The shell first carries out all
// AppendRecord and EndEvaluation (its row) of a batch in one transaction, then the rest, in order.
// A command for a session or request that is gone is dropped.
namespace pike::coordinator {

// Makes the record durable.
struct AppendRecord {
  Record record;
};

// Answers to callers.
enum class SubmitOutcome { kAccepted, kRepeated, kRefused };
// Each maps to the gRPC code of the same name.
enum class Refusal {
  kNone,
  kAlreadyExists,
  kFailedPrecondition,
  kResourceExhausted,
  kPermissionDenied
};
struct AnswerSubmit {
  RequestId request;
  SubmitOutcome outcome = SubmitOutcome::kRefused;
  EvaluationId evaluation_id;  // unless refused; a repeated one may have ended
  Refusal refusal = Refusal::kNone;
  std::string message;
};
// `was_active` false: it has ended before, or never existed; the store knows which.
struct AnswerCancel {
  RequestId request;
  EvaluationId evaluation_id;
  bool was_active = false;
};
struct AnswerDrain {
  RequestId request;
  WorkerId worker_id;
  bool found = false;
};
// kNone: the shell records the artifact in the store, where the first one wins.
struct AnswerPublish {
  RequestId request;
  Refusal refusal = Refusal::kNone;
  std::string message;
};

// Messages to workers.
struct SendWelcome {
  SessionId session;
  Milliseconds heartbeat_interval{0};
  std::vector<LeaseId> revoked_leases;
};
// The shell closes the stream after it.
struct SendRefused {
  SessionId session;
  std::string reason;
};
struct CompileGrant {
  std::string payload;  // of EvaluationSubmitted
};
struct RunGrant {
  std::string payload;         // of EvaluationSubmitted
  std::string builds_payload;  // of CompileFinished
  std::string runtime_digest;  // the builds were made for it
  double best_speedup = 0;     // of its contest on the worker's class; 0 if none is known
};
struct BuildGrant {
  std::string request_sha256;
  Milliseconds timeout{0};
};
struct SendLease {
  SessionId session;
  LeaseRef lease;
  std::optional<EvaluationId> evaluation_id;  // absent for a build
  Milliseconds deadline{0};
  std::string arch;
  std::variant<CompileGrant, RunGrant, BuildGrant> work;
};
struct SendCancelLease {
  SessionId session;
  LeaseRef lease;
};
struct SendDrain {
  SessionId session;
  std::string reason;
};
struct SendResultAck {
  SessionId session;
  LeaseRef lease;
};
struct SendBuildReply {
  SessionId session;
  uint64_t build_request_id = 0;
  std::string build_payload;  // of BuildFinished; empty if infra_error is set
  std::string infra_error;
};
struct CloseSession {
  SessionId session;
  std::string reason;
};

// An evaluation moved; watchers are told. Also sent for every live evaluation at the start.
struct NotifyStage {
  EvaluationId evaluation_id;
  Stage stage = Stage::kQueuedCompile;
  uint32_t queue_position = 0;  // from 1; 0 if it does not wait
  uint32_t attempt = 0;
};

// An evaluation ended: once per accepted evaluation, beside its EvaluationEnded record.
struct WorkerVerdict {
  VerdictKind kind = VerdictKind::kInfraError;
  std::string payload;  // of VerdictReached
  WorkerId worker_id;
  double speedup = 0;       // as measured; 0 if it was not
  std::string certificate;  // of the worker; empty if it has none
};
struct CoreVerdict {
  VerdictKind kind = VerdictKind::kInfraError;  // kInfraError or kCancelled
  std::string reason;
  Stage stage = Stage::kQueuedCompile;  // where it was
  Blame blame = Blame::kNobody;
};
struct EndEvaluation {
  EvaluationId evaluation_id;
  std::variant<WorkerVerdict, CoreVerdict> verdict;
  std::string payload;  // of EvaluationSubmitted
  Principal principal;
  std::string client_key;
  uint32_t attempt = 0;
  std::vector<std::string> earlier_attempts;
  std::string builds_payload;         // of CompileFinished; empty if it was not reached
  std::string compile_times_payload;  // the compile worker's StageTimes
  std::string run_times_payload;      // of the result that decided
  Milliseconds queued_compile{0};
  Milliseconds queued_run{0};
  int64_t submitted_unix_ms = 0;
  int64_t ended_unix_ms = 0;
};

// Facts for metrics.
struct ObserveQueueWait {  // it left a queue, by a lease or by its end
  Stage stage = Stage::kQueuedCompile;
  Milliseconds wait{0};
};
struct CountRetry {
  RetryReason reason = RetryReason::kWorkerLost;
};

// A round of canaries ended.
struct ReportCanaries {
  WorkerId worker_id;
  CanaryOutcome outcome = CanaryOutcome::kPassed;
  std::string text;        // the certificate, or the reason why the worker gets no more leases
  uint32_t withdrawn = 0;  // verdicts
};

using Command = std::variant<AppendRecord, AnswerSubmit, AnswerCancel, AnswerDrain, AnswerPublish,
                             SendWelcome, SendRefused, SendLease, SendCancelLease, SendDrain,
                             SendResultAck, SendBuildReply, CloseSession, NotifyStage,
                             EndEvaluation, ObserveQueueWait, CountRetry, ReportCanaries>;

}  // namespace pike::coordinator
