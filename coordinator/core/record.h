#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/types.h"

// The durable log: what the core decided. Applying all records in order to an empty core gives its
// state. Times are the coordinator's wall clock. A record is written before its effects are.
namespace pike::coordinator {

// A start of the coordinator; also the first record of a snapshot.
struct EpochStarted {
  uint32_t epoch = 0;                 // from 1
  uint64_t evaluations_accepted = 0;  // ids given so far
  friend bool operator==(const EpochStarted&, const EpochStarted&) = default;
};

struct EvaluationAccepted {
  EvaluationId evaluation_id;
  Principal principal;
  std::string client_key;
  std::string request_digest;
  Demand demand;
  PolicyTimes times;
  std::string payload;
  int64_t submitted_unix_ms = 0;
  std::string contest;
  friend bool operator==(const EvaluationAccepted&, const EvaluationAccepted&) = default;
};

// A compile or run lease was given; its evaluation left the queue. Build leases are not durable.
struct LeaseGranted {
  LeaseRef lease;
  EvaluationId evaluation_id;
  LeaseKind kind = LeaseKind::kCompile;
  WorkerId worker_id;
  BuildTarget target;
  int64_t granted_unix_ms = 0;
  Milliseconds queued{0};  // waited in the queue before this lease
  friend bool operator==(const LeaseGranted&, const LeaseGranted&) = default;
};

// An attempt ended without a result; its evaluation is back in the queue of its stage.
struct AttemptFailed {
  LeaseRef lease;
  EvaluationId evaluation_id;
  std::string reason;  // one line, kept for the evidence
  int64_t at_unix_ms = 0;
  friend bool operator==(const AttemptFailed&, const AttemptFailed&) = default;
};

// The compile stage is done; its evaluation waits for a GPU worker that fits `target`.
struct CompileStageDone {
  LeaseRef lease;
  EvaluationId evaluation_id;
  BuildTarget target;
  std::string builds_payload;
  std::string times_payload;
  int64_t at_unix_ms = 0;
  friend bool operator==(const CompileStageDone&, const CompileStageDone&) = default;
};

// The end of an evaluation. The verdict itself is in the EndEvaluation command of the same batch,
// which the store keeps as a row.
struct EvaluationEnded {
  EvaluationId evaluation_id;
  VerdictKind kind = VerdictKind::kInfraError;
  int64_t ended_unix_ms = 0;
  // Of a valid verdict: the class of the device and what it measured; empty and 0 otherwise.
  std::string gpu_class;
  double speedup = 0;
  // Of a verdict that a canary may withdraw: the GPU worker that said it; empty otherwise.
  WorkerId kept_of;
  friend bool operator==(const EvaluationEnded&, const EvaluationEnded&) = default;
};

// A worker that admission and placement may count on for the next ten minutes.
struct WorkerSeen {
  WorkerFacts worker;
  friend bool operator==(const WorkerSeen&, const WorkerSeen&) = default;
};

struct WorkerForgotten {  // and its drain with it
  WorkerId worker_id;
  friend bool operator==(const WorkerForgotten&, const WorkerForgotten&) = default;
};

// The worker gets no more leases.
struct WorkerDrained {
  WorkerId worker_id;
  std::string reason;
  friend bool operator==(const WorkerDrained&, const WorkerDrained&) = default;
};

// The worker judged a round of canaries as expected.
struct CertificateGranted {
  WorkerId worker_id;
  std::string certificate;  // "worker/number/certified_unix_ms"
  uint32_t number = 0;      // of the worker's rounds, from 1
  int64_t certified_unix_ms = 0;
  int64_t begun_unix_ms = 0;  // verdicts before this are no longer in doubt
  friend bool operator==(const CertificateGranted&, const CertificateGranted&) = default;
};

// The worker misjudged a canary, or could not judge it: it gets no more leases.
struct CanaryFailed {
  WorkerId worker_id;
  std::string reason;  // one line
  friend bool operator==(const CanaryFailed&, const CanaryFailed&) = default;
};

// An ended evaluation waits for its compile stage again: its verdict is not to be trusted.
struct VerdictWithdrawn {
  EvaluationId evaluation_id;
  std::string reason;  // one line, kept for the evidence
  int64_t at_unix_ms = 0;
  friend bool operator==(const VerdictWithdrawn&, const VerdictWithdrawn&) = default;
};

// In snapshots only: an evaluation that has not ended, out of its lease. If it holds one, its
// LeaseGranted follows.
struct EvaluationRestored {
  EvaluationAccepted accepted;
  Stage stage = Stage::kQueuedCompile;  // kQueuedCompile or kQueuedRun
  uint32_t attempts = 0;  // leases given in this stage, the one that follows not counted
  std::vector<std::string> earlier_attempts;
  std::optional<CompileStageDone> compiled;
  int64_t queued_unix_ms = 0;
  Milliseconds queued_compile{0};
  Milliseconds queued_run{0};
  friend bool operator==(const EvaluationRestored&, const EvaluationRestored&) = default;
};

// In snapshots only: the client key of an evaluation that has ended, oldest end first.
struct ClientKeyKept {
  Principal principal;
  std::string client_key;
  std::string request_digest;
  EvaluationId evaluation_id;
  friend bool operator==(const ClientKeyKept&, const ClientKeyKept&) = default;
};

// In snapshots only: the best valid verdict of a contest on one class, improved the longest ago
// first.
struct BestKept {
  std::string contest;
  std::string gpu_class;
  double speedup = 0;
  EvaluationId evaluation_id;
  friend bool operator==(const BestKept&, const BestKept&) = default;
};

// In snapshots only: an ended evaluation whose verdict may be withdrawn, oldest end first.
struct VerdictKept {
  EvaluationAccepted accepted;
  WorkerId worker_id;
  int64_t ended_unix_ms = 0;
  std::vector<std::string> earlier_attempts;
  friend bool operator==(const VerdictKept&, const VerdictKept&) = default;
};

using Record = std::variant<EpochStarted, EvaluationAccepted, LeaseGranted, AttemptFailed,
                            CompileStageDone, EvaluationEnded, WorkerSeen, WorkerForgotten,
                            WorkerDrained, EvaluationRestored, ClientKeyKept, BestKept,
                            CertificateGranted, CanaryFailed, VerdictWithdrawn, VerdictKept>;

}  // namespace pike::coordinator
