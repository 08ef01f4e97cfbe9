#include "compile_worker/server/lease_result.h"

#include <absl/strings/str_cat.h>

#include "common/base/text.h"
#include "common/build/build_record.h"

namespace pike::compile_worker {
namespace {

constexpr size_t kErrorTextShownMax = 8 << 10;

v1::LeaseResult ResultOf(const v1::Lease& lease) {
  v1::LeaseResult result;
  result.set_lease_id(lease.lease_id());
  result.set_attempt(lease.attempt());
  return result;
}

build::CappedOutput Capped(const sandbox::CapturedOutput& output) {
  return {output.head, output.tail, static_cast<uint64_t>(output.bytes_total)};
}

v1::Evidence EvidenceOf(const v1::Lease& lease, const ImportObservation& observation,
                        const WorkerIdentity& identity) {
  v1::Evidence evidence;
  evidence.set_worker_id(identity.worker_id);
  evidence.set_attempt(lease.attempt());
  evidence.set_toolchain_digest(identity.toolchain_digest);
  const sandbox::Exit& exit = observation.exit;
  if (!exit.is_killed && exit.signal != 0)
    evidence.set_signal(exit.signal);
  else if (!exit.is_killed)
    evidence.set_exit_status(exit.status);
  evidence.set_memory_peak_bytes(static_cast<uint64_t>(exit.memory_peak_bytes.value_or(0)));
  evidence.set_memory_limit_hit(exit.memory_limit_hit);
  evidence.set_error_text(EscapeUntrusted(observation.facts.error_text, kErrorTextShownMax));
  *evidence.mutable_stdout_tail() = build::ToOutputTail(Capped(observation.stdout_text));
  *evidence.mutable_stderr_tail() = build::ToOutputTail(Capped(observation.stderr_text));
  for (const std::string& capability : identity.sandbox_capabilities)
    evidence.add_sandbox(capability);
  return evidence;
}

v1::VerdictKind VerdictKindOf(Conclusion conclusion) {
  switch (conclusion) {
    case Conclusion::kUnparsable:
      return v1::VERDICT_KIND_UNPARSABLE;
    case Conclusion::kLoadError:
      return v1::VERDICT_KIND_LOAD_ERROR;
    case Conclusion::kTimeout:
      return v1::VERDICT_KIND_TIMEOUT;
    case Conclusion::kOutOfMemory:
      return v1::VERDICT_KIND_OUT_OF_MEMORY;
    case Conclusion::kCompiled:
    case Conclusion::kInconclusive:
    case Conclusion::kInfra:
      return v1::VERDICT_KIND_UNSPECIFIED;
  }
  return v1::VERDICT_KIND_UNSPECIFIED;
}

}  // namespace

v1::LeaseResult ImportResult(const v1::Lease& lease, const ImportObservation& observation,
                             double compile_ms, const WorkerIdentity& identity) {
  const Outcome outcome = Conclude(observation.facts);
  if (outcome.conclusion == Conclusion::kInfra)
    return InfraResult(lease, absl::UnavailableError(outcome.reason));
  v1::LeaseResult result = ResultOf(lease);
  result.mutable_times()->set_compile_ms(compile_ms);
  if (outcome.conclusion == Conclusion::kCompiled ||
      outcome.conclusion == Conclusion::kInconclusive) {
    v1::Compiled* compiled = result.mutable_compiled();
    compiled->set_inconclusive(outcome.conclusion == Conclusion::kInconclusive);
    compiled->set_note(outcome.reason);
    for (const NamedBuild& build : observation.builds)
      *compiled->add_builds() = build::ToBuildRecord(build.outcome, build.name, /*is_late=*/false);
    build::BoundOutputs(compiled->mutable_builds());
    return result;
  }
  v1::Verdict* verdict = result.mutable_verdict();
  verdict->set_kind(VerdictKindOf(outcome.conclusion));
  verdict->set_reason(outcome.reason);
  verdict->set_stage(v1::STAGE_COMPILE);
  verdict->set_blame(v1::BLAME_CANDIDATE);
  for (const NamedBuild& build : observation.builds)
    *verdict->add_builds() = build::ToBuildRecord(build.outcome, build.name, /*is_late=*/false);
  build::BoundOutputs(verdict->mutable_builds());
  *verdict->mutable_evidence() = EvidenceOf(lease, observation, identity);
  return result;
}

v1::LeaseResult BuildWorkResult(const v1::Lease& lease, const std::string& extension_name,
                                const build::BuildOutcome& outcome) {
  v1::LeaseResult result = ResultOf(lease);
  result.mutable_times()->set_compile_ms(outcome.build_ms);
  *result.mutable_build() = build::ToBuildRecord(outcome, extension_name, /*is_late=*/true);
  return result;
}

v1::LeaseResult InfraResult(const v1::Lease& lease, const absl::Status& status) {
  v1::LeaseResult result = ResultOf(lease);
  v1::InfraFailure* failure = result.mutable_infra_failure();
  failure->set_reason(EscapeLine(std::string(status.message()).substr(0, 500)));
  failure->set_is_retryable(!absl::IsInvalidArgument(status));
  failure->set_blame(v1::BLAME_INFRASTRUCTURE);
  return result;
}

}  // namespace pike::compile_worker
