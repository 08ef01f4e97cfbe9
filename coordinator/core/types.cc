#include "coordinator/core/types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>

#include "common/base/check.h"

namespace pike::coordinator {
namespace {

// Decimal digits only: SimpleAtoi alone would take a sign and spaces.
template <typename Number>
bool ParseDigits(absl::string_view text, Number* number) {
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c)))
      return false;
  }
  return absl::SimpleAtoi(text, number);
}

}  // namespace

std::string ToText(EvaluationId id) {
  return absl::StrFormat("ev-%010d", id.value);
}

std::string ToText(LeaseId id) {
  return absl::StrCat("lease-", id.epoch, "-", id.number);
}

std::optional<EvaluationId> ParseEvaluationId(absl::string_view text) {
  EvaluationId id;
  if (!absl::ConsumePrefix(&text, "ev-") || !ParseDigits(text, &id.value))
    return std::nullopt;
  return id;
}

std::optional<LeaseId> ParseLeaseId(absl::string_view text) {
  LeaseId id;
  if (!absl::ConsumePrefix(&text, "lease-"))
    return std::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '-');
  if (parts.size() != 2 || !ParseDigits(parts[0], &id.epoch) || !ParseDigits(parts[1], &id.number))
    return std::nullopt;
  return id;
}

absl::string_view Name(Stage stage) {
  switch (stage) {
    case Stage::kQueuedCompile:
      return "queued_compile";
    case Stage::kCompile:
      return "compile";
    case Stage::kQueuedRun:
      return "queued_run";
    case Stage::kPrepare:
      return "prepare";
    case Stage::kVerify:
      return "verify";
    case Stage::kMeasure:
      return "measure";
    case Stage::kEnded:
      return "ended";
  }
  PIKE_CHECK(false);
}

absl::string_view Name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kValid:
      return "valid";
    case VerdictKind::kIncorrect:
      return "incorrect";
    case VerdictKind::kLoadError:
      return "load_error";
    case VerdictKind::kRuntimeError:
      return "runtime_error";
    case VerdictKind::kTimeout:
      return "timeout";
    case VerdictKind::kOutOfMemory:
      return "out_of_memory";
    case VerdictKind::kUnparsable:
      return "unparsable";
    case VerdictKind::kSuspect:
      return "suspect";
    case VerdictKind::kInfraError:
      return "infra_error";
    case VerdictKind::kCancelled:
      return "cancelled";
  }
  PIKE_CHECK(false);
}

absl::string_view Name(Blame blame) {
  switch (blame) {
    case Blame::kNobody:
      return "nobody";
    case Blame::kCandidate:
      return "candidate";
    case Blame::kInfrastructure:
      return "infrastructure";
    case Blame::kTask:
      return "task";
  }
  PIKE_CHECK(false);
}

absl::string_view Name(WorkerKind kind) {
  switch (kind) {
    case WorkerKind::kCompile:
      return "compile";
    case WorkerKind::kGpu:
      return "gpu";
  }
  PIKE_CHECK(false);
}

absl::string_view Name(WorkerState state) {
  switch (state) {
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kDraining:
      return "draining";
    case WorkerState::kLost:
      return "lost";
  }
  PIKE_CHECK(false);
}

absl::string_view Name(LeaseKind kind) {
  switch (kind) {
    case LeaseKind::kCompile:
      return "compile";
    case LeaseKind::kRun:
      return "run";
    case LeaseKind::kBuild:
      return "build";
    case LeaseKind::kCanary:
      return "canary";
  }
  PIKE_CHECK(false);
}

absl::string_view Name(RetryReason reason) {
  switch (reason) {
    case RetryReason::kWorkerLost:
      return "worker_lost";
    case RetryReason::kLeaseNotHeld:
      return "lease_not_held";
    case RetryReason::kDeadlinePassed:
      return "deadline_passed";
    case RetryReason::kInfraFailure:
      return "infra_failure";
    case RetryReason::kMalformedResult:
      return "malformed_result";
    case RetryReason::kWorkerCondemned:
      return "worker_condemned";
  }
  PIKE_CHECK(false);
}

absl::string_view Name(CanaryOutcome outcome) {
  switch (outcome) {
    case CanaryOutcome::kPassed:
      return "passed";
    case CanaryOutcome::kMisjudged:
      return "misjudged";
    case CanaryOutcome::kUndecided:
      return "undecided";
  }
  PIKE_CHECK(false);
}

}  // namespace pike::coordinator
