#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>

// What the core decides about. Mirrors proto/pike/v1 without protobuf; whatever the core does not
// decide about (policies, verdicts, builds, Hello) passes through it as an opaque serialised
// string, called a payload.
namespace pike::coordinator {

using Milliseconds = std::chrono::milliseconds;

// Two identifiers of different tags do not mix.
template <typename Tag>
struct StringId {
  std::string value;
  friend auto operator<=>(const StringId&, const StringId&) = default;
};
template <typename Tag>
struct NumberId {
  uint64_t value = 0;
  friend auto operator<=>(const NumberId&, const NumberId&) = default;
};

using EvaluationId = NumberId<struct EvaluationTag>;  // given by the core, in order of acceptance
using WorkerId = StringId<struct WorkerTag>;          // chosen by the worker process at its start
using Principal = StringId<struct PrincipalTag>;      // set by the server
// One connection of one worker. Chosen by the shell, never used twice: it is the generation too.
using SessionId = StringId<struct SessionTag>;
// Names the caller that waits for an answer. Chosen by the shell; not durable.
using RequestId = NumberId<struct RequestTag>;

// Never used twice: the epoch is new for each start of the coordinator.
struct LeaseId {
  uint32_t epoch = 0;
  uint64_t number = 0;
  friend auto operator<=>(const LeaseId&, const LeaseId&) = default;
};

// A lease as both sides name it.
struct LeaseRef {
  LeaseId lease_id;
  uint32_t attempt = 0;
  friend auto operator<=>(const LeaseRef&, const LeaseRef&) = default;
};

// The text forms that cross the wire: "ev-0000000042" (sorts by age) and "lease-3-17".
std::string ToText(EvaluationId id);
std::string ToText(LeaseId id);
std::optional<EvaluationId> ParseEvaluationId(absl::string_view text);
std::optional<LeaseId> ParseLeaseId(absl::string_view text);

// kQueuedCompile -> kCompile -> kQueuedRun -> kPrepare -> kVerify -> kMeasure -> kEnded.
// A lost attempt goes back to the queue of its stage; every state may go to kEnded.
enum class Stage { kQueuedCompile, kCompile, kQueuedRun, kPrepare, kVerify, kMeasure, kEnded };

enum class VerdictKind {
  kValid,
  kIncorrect,
  kLoadError,
  kRuntimeError,
  kTimeout,
  kOutOfMemory,
  kUnparsable,
  kSuspect,
  kInfraError,
  kCancelled,
};

enum class Blame { kNobody, kCandidate, kInfrastructure, kTask };

enum class WorkerKind { kCompile, kGpu };

enum class WorkerState { kReady, kDraining, kLost };

// What a lease is for.
enum class LeaseKind { kCompile, kRun, kBuild, kCanary };

// Why an attempt ended without a result; the label of pike_coordinator_retries_total.
enum class RetryReason {
  kWorkerLost,       // nothing was heard of the lease for lease_timeout
  kLeaseNotHeld,     // the worker reconnected without it
  kDeadlinePassed,   // the worker lives, but the hard deadline passed
  kInfraFailure,     // the worker said so
  kMalformedResult,  // an outcome that does not fit the lease
  kWorkerCondemned,  // the worker misjudged a canary
};

// How a round of canaries ended; the label of pike_coordinator_canary_rounds_total.
enum class CanaryOutcome {
  kPassed,
  kMisjudged,
  kUndecided,  // no verdict, time and again
};

// Lower-case names as in the API: "queued_compile", "valid", "infrastructure", "gpu",
// "worker_lost".
absl::string_view Name(Stage stage);
absl::string_view Name(VerdictKind kind);
absl::string_view Name(Blame blame);
absl::string_view Name(WorkerKind kind);
absl::string_view Name(WorkerState state);
absl::string_view Name(LeaseKind kind);
absl::string_view Name(RetryReason reason);
absl::string_view Name(CanaryOutcome outcome);

// What an evaluation asks of the GPU worker that runs it. Empty fields match everything.
struct Demand {
  std::string gpu_class;
  std::string toolchain_digest;  // a worker's toolchain digest, or its runtime digest
  friend auto operator<=>(const Demand&, const Demand&) = default;
};

// What a build is made for.
struct BuildTarget {
  std::string runtime_digest;
  std::string arch;
  friend auto operator<=>(const BuildTarget&, const BuildTarget&) = default;
};

// The parts of a policy that bound time.
struct PolicyTimes {
  Milliseconds queue_timeout{600'000};
  Milliseconds compile_timeout{300'000};
  Milliseconds build_timeout{240'000};
  Milliseconds load_timeout{120'000};
  Milliseconds first_call_timeout{300'000};
  Milliseconds call_timeout{60'000};
  Milliseconds timed_max{500};
  uint32_t correctness_trials = 5;
  uint32_t warmup_calls = 3;
  friend bool operator==(const PolicyTimes&, const PolicyTimes&) = default;
};

// What the core knows of a worker from its Hello.
struct WorkerFacts {
  WorkerId worker_id;
  WorkerKind kind = WorkerKind::kCompile;
  uint32_t slots = 0;
  std::string toolchain_digest;
  std::string runtime_digest;
  std::string gpu_class;  // empty for a compile worker
  std::string arch;       // empty for a compile worker
  bool can_build = false;
  std::string hello_payload;  // for display
  friend bool operator==(const WorkerFacts&, const WorkerFacts&) = default;
};

}  // namespace pike::coordinator
