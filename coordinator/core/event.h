#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/core/types.h"

// Everything that can happen to the core, in the past tense. The shell validates form (lengths,
// digests, enum values) before it makes an event; the core judges everything else, and takes any
// event at any time: late, repeated, out of order, or from a session that is gone.
namespace pike::coordinator {

// Once, first, after the log was replayed (an empty log too).
struct CoordinatorStarted {
  int64_t wall_unix_ms = 0;
};

// Deadlines fire only here, so that heartbeats which wait in the same batch count before they do.
// The shell sends it last in each batch in which NextDeadline() has come.
struct TimePassed {
  int64_t wall_unix_ms = 0;
};

struct EvaluationSubmitted {
  RequestId request;
  Principal principal;
  std::string client_key;      // empty: not idempotent
  std::string request_digest;  // over everything that makes two requests the same
  Demand demand;
  PolicyTimes times;
  std::string payload;  // returned with leases and at the end
  std::string contest;  // the evaluations that compete with it: same task, same policy
};

struct CancelRequested {
  RequestId request;
  EvaluationId evaluation_id;
};

// A Hello arrived on a new stream.
struct WorkerConnected {
  SessionId session;
  WorkerFacts worker;
  std::vector<LeaseRef> held_leases;
};

struct WorkerDisconnected {
  SessionId session;
};

struct HeartbeatReceived {
  SessionId session;
  std::vector<LeaseRef> held_leases;
};

struct StageChanged {
  SessionId session;
  LeaseRef lease;
  Stage stage = Stage::kPrepare;
};

// Outcomes of a lease.
struct CompileFinished {
  std::string builds_payload;
};
struct VerdictReached {
  VerdictKind kind = VerdictKind::kInfraError;
  std::string payload;
  double speedup = 0;  // as measured; 0 if it was not
};
struct BuildFinished {
  std::string payload;
};
struct InfraFailed {
  std::string reason;
  bool is_retryable = true;
  Blame blame = Blame::kInfrastructure;
};
using LeaseOutcome = std::variant<CompileFinished, VerdictReached, BuildFinished, InfraFailed>;

struct LeaseResultReceived {
  SessionId session;
  LeaseRef lease;
  std::string times_payload;  // the worker's StageTimes
  LeaseOutcome outcome;
};

// A GPU worker asks for a late build.
struct BuildRequested {
  SessionId session;
  uint64_t build_request_id = 0;  // unique within the session
  LeaseId lease_id;
  std::string request_sha256;
  std::string arch;
  Milliseconds timeout{0};
};

struct DrainRequested {
  RequestId request;
  WorkerId worker_id;
  std::string reason;
};

// The worker wants no more leases.
struct WorkerDraining {
  SessionId session;
  std::string reason;
};

// A worker wants to record a finished build; the core judges the right to do so.
struct ArtifactPublished {
  RequestId request;
  SessionId session;
  std::string toolchain_digest;
};

using Event = std::variant<CoordinatorStarted, TimePassed, EvaluationSubmitted, CancelRequested,
                           WorkerConnected, WorkerDisconnected, HeartbeatReceived, StageChanged,
                           LeaseResultReceived, BuildRequested, DrainRequested, WorkerDraining,
                           ArtifactPublished>;

}  // namespace pike::coordinator
