#include "compile_worker/server/lease_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/build/build_request.h"
#include "compile_worker/server/candidate_import.h"

namespace pike::compile_worker {
namespace {

// The result must be on its way before the lease's own deadline.
constexpr std::chrono::milliseconds kReportMargin{500};

MonoTime LatestFor(const v1::Lease& lease) {
  const std::chrono::milliseconds lease_time(lease.deadline_ms());
  return MonoNow() + std::max(lease_time / 2, lease_time - kReportMargin);
}

}  // namespace

LeaseRunner::LeaseRunner(Parts parts) : parts_(std::move(parts)) {}

v1::LeaseResult LeaseRunner::Run(const v1::Lease& lease, const std::stop_token& stop) {
  switch (lease.work_case()) {
    case v1::Lease::kCompile:
      return RunCompile(lease, stop);
    case v1::Lease::kBuild:
      return RunBuild(lease, stop);
    case v1::Lease::kRun:
    case v1::Lease::WORK_NOT_SET:
      break;
  }
  return InfraResult(lease, absl::InvalidArgumentError("not work for a compile worker"));
}

v1::LeaseResult LeaseRunner::RunCompile(const v1::Lease& lease, const std::stop_token& stop) {
  const MonoTime start = MonoNow();
  const MonoTime latest = LatestFor(lease);
  absl::StatusOr<std::string> source = parts_.blobs->Read(lease.compile().candidate_sha256());
  if (!source.ok())
    return InfraResult(lease, source.status());
  ImportJob job;
  job.source = *std::move(source);
  job.arch = lease.arch();
  job.timeout = std::chrono::milliseconds(lease.compile().policy().compile_timeout_ms());
  job.latest = latest;
  job.build_timeout = std::chrono::milliseconds(lease.compile().policy().build_timeout_ms());
  job.stop = stop;
  const absl::StatusOr<ImportObservation> observation = Observe(job);
  if (!observation.ok())
    return InfraResult(lease, observation.status());
  const double compile_ms = ToMs(MonoNow() - start);
  if (parts_.on_compile_stage)
    parts_.on_compile_stage(compile_ms / 1000);
  return ImportResult(lease, *observation, compile_ms, parts_.identity);
}

absl::StatusOr<ImportObservation> LeaseRunner::Observe(const ImportJob& job) {
  ASSIGN_OR_RETURN(std::optional<ImportFacts> refused,
                   parts_.source_check->Check(job.source, job.stop));
  if (!refused)
    return ImportCandidate(parts_.pool, parts_.broker, job);
  ImportObservation observation;
  observation.facts = *std::move(refused);
  observation.exit.is_killed = true;  // none of its code ran, so there is no exit to show
  return observation;
}

v1::LeaseResult LeaseRunner::RunBuild(const v1::Lease& lease, const std::stop_token& stop) {
  const MonoTime latest = LatestFor(lease);
  const absl::StatusOr<std::string> bytes = parts_.blobs->Read(lease.build().request_sha256());
  if (!bytes.ok())
    return InfraResult(lease, bytes.status());
  const absl::StatusOr<build::BuildRequest> request = build::ParseBuildRequest(*bytes);
  if (!request.ok())
    return InfraResult(lease, request.status());
  build::BuildCall call;
  call.arch = lease.arch();
  call.build_timeout = std::chrono::milliseconds(lease.build().timeout_ms());
  call.deadline = latest;
  call.stop = stop;
  const absl::StatusOr<build::BuildOutcome> outcome = parts_.broker->Build(*request, call);
  if (!outcome.ok())
    return InfraResult(lease, outcome.status());
  return BuildWorkResult(lease, request->name, *outcome);
}

}  // namespace pike::compile_worker
