#include "coordinator/rpc/convert.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/text.h"
#include "pike/store/v1/log.pb.h"

namespace pike::coordinator {
namespace {

template <typename Message>
Message Parse(const std::string& payload) {
  Message message;
  // Payloads are bytes that this coordinator made.
  PIKE_CHECK(message.ParseFromString(payload));
  return message;
}

uint32_t ToMs(Milliseconds duration) {
  const auto ms = std::clamp<int64_t>(duration.count(), 0, std::numeric_limits<uint32_t>::max());
  return static_cast<uint32_t>(ms);
}

void Fill(const CompileGrant& grant, v1::Lease* lease) {
  const auto payload = Parse<store::v1::EvaluationPayload>(grant.payload);
  v1::CompileWork* work = lease->mutable_compile();
  work->set_candidate_sha256(payload.evaluation().candidate_sha256());
  *work->mutable_policy() = payload.evaluation().policy();
}

void Fill(const RunGrant& grant, v1::Lease* lease) {
  const auto payload = Parse<store::v1::EvaluationPayload>(grant.payload);
  v1::RunWork* work = lease->mutable_run();
  work->set_candidate_sha256(payload.evaluation().candidate_sha256());
  work->set_task_version(payload.task().version());
  work->set_task_sha256(payload.task().source_sha256());
  work->set_weight_seed(payload.task().weight_seed());
  work->set_entry_reference(payload.task().entry_reference());
  *work->mutable_policy() = payload.evaluation().policy();
  const auto builds = Parse<store::v1::BuildsPayload>(grant.builds_payload);
  for (const v1::BuildRecord& build : builds.compiled().builds()) {
    if (build.artifact_sha256().empty())
      continue;
    v1::ArtifactRef* artifact = work->add_artifacts();
    artifact->set_key(build.key());
    artifact->set_artifact_sha256(build.artifact_sha256());
  }
  if (!work->artifacts().empty())
    work->set_toolchain_digest(builds.toolchain_digest());
  work->set_best_speedup(grant.best_speedup);
}

void Fill(const BuildGrant& grant, v1::Lease* lease) {
  v1::BuildWork* work = lease->mutable_build();
  work->set_request_sha256(grant.request_sha256);
  work->set_timeout_ms(ToMs(grant.timeout));
}

}  // namespace

v1::Stage ToProto(Stage stage) {
  switch (stage) {
    case Stage::kQueuedCompile:
      return v1::STAGE_QUEUED_COMPILE;
    case Stage::kCompile:
      return v1::STAGE_COMPILE;
    case Stage::kQueuedRun:
      return v1::STAGE_QUEUED_RUN;
    case Stage::kPrepare:
      return v1::STAGE_PREPARE;
    case Stage::kVerify:
      return v1::STAGE_VERIFY;
    case Stage::kMeasure:
      return v1::STAGE_MEASURE;
    case Stage::kEnded:
      return v1::STAGE_ENDED;
  }
  return v1::STAGE_UNSPECIFIED;
}

v1::VerdictKind ToProto(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kValid:
      return v1::VERDICT_KIND_VALID;
    case VerdictKind::kIncorrect:
      return v1::VERDICT_KIND_INCORRECT;
    case VerdictKind::kLoadError:
      return v1::VERDICT_KIND_LOAD_ERROR;
    case VerdictKind::kRuntimeError:
      return v1::VERDICT_KIND_RUNTIME_ERROR;
    case VerdictKind::kTimeout:
      return v1::VERDICT_KIND_TIMEOUT;
    case VerdictKind::kOutOfMemory:
      return v1::VERDICT_KIND_OUT_OF_MEMORY;
    case VerdictKind::kUnparsable:
      return v1::VERDICT_KIND_UNPARSABLE;
    case VerdictKind::kSuspect:
      return v1::VERDICT_KIND_SUSPECT;
    case VerdictKind::kInfraError:
      return v1::VERDICT_KIND_INFRA_ERROR;
    case VerdictKind::kCancelled:
      return v1::VERDICT_KIND_CANCELLED;
  }
  return v1::VERDICT_KIND_UNSPECIFIED;
}

v1::Blame ToProto(Blame blame) {
  switch (blame) {
    case Blame::kNobody:
      return v1::BLAME_UNSPECIFIED;
    case Blame::kCandidate:
      return v1::BLAME_CANDIDATE;
    case Blame::kInfrastructure:
      return v1::BLAME_INFRASTRUCTURE;
    case Blame::kTask:
      return v1::BLAME_TASK;
  }
  return v1::BLAME_UNSPECIFIED;
}

v1::WorkerKind ToProto(WorkerKind kind) {
  switch (kind) {
    case WorkerKind::kCompile:
      return v1::WORKER_KIND_COMPILE;
    case WorkerKind::kGpu:
      return v1::WORKER_KIND_GPU;
  }
  return v1::WORKER_KIND_UNSPECIFIED;
}

v1::WorkerState ToProto(WorkerState state) {
  switch (state) {
    case WorkerState::kReady:
      return v1::WORKER_STATE_READY;
    case WorkerState::kDraining:
      return v1::WORKER_STATE_DRAINING;
    case WorkerState::kLost:
      return v1::WORKER_STATE_LOST;
  }
  return v1::WORKER_STATE_UNSPECIFIED;
}

std::optional<Stage> FromProto(v1::Stage stage) {
  for (const Stage known : {Stage::kQueuedCompile, Stage::kCompile, Stage::kQueuedRun,
                            Stage::kPrepare, Stage::kVerify, Stage::kMeasure, Stage::kEnded}) {
    if (ToProto(known) == stage)
      return known;
  }
  return std::nullopt;
}

std::optional<VerdictKind> FromProto(v1::VerdictKind kind) {
  for (const VerdictKind known :
       {VerdictKind::kValid, VerdictKind::kIncorrect, VerdictKind::kLoadError,
        VerdictKind::kRuntimeError, VerdictKind::kTimeout, VerdictKind::kOutOfMemory,
        VerdictKind::kUnparsable, VerdictKind::kSuspect, VerdictKind::kInfraError,
        VerdictKind::kCancelled}) {
    if (ToProto(known) == kind)
      return known;
  }
  return std::nullopt;
}

std::optional<WorkerKind> FromProto(v1::WorkerKind kind) {
  for (const WorkerKind known : {WorkerKind::kCompile, WorkerKind::kGpu}) {
    if (ToProto(known) == kind)
      return known;
  }
  return std::nullopt;
}

Blame FromProto(v1::Blame blame) {
  for (const Blame known : {Blame::kCandidate, Blame::kTask}) {
    if (ToProto(known) == blame)
      return known;
  }
  return Blame::kInfrastructure;
}

v1::CoordinatorMessage ToProto(const SendWelcome& command) {
  v1::CoordinatorMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_session_id(command.session.value);
  welcome->set_heartbeat_interval_ms(ToMs(command.heartbeat_interval));
  for (const LeaseId& lease : command.revoked_leases)
    welcome->add_revoked_lease_ids(ToText(lease));
  return message;
}

v1::CoordinatorMessage ToProto(const SendRefused& command) {
  v1::CoordinatorMessage message;
  message.mutable_refused()->set_reason(EscapeLine(command.reason));
  return message;
}

v1::CoordinatorMessage ToProto(const SendLease& command) {
  v1::CoordinatorMessage message;
  v1::Lease* lease = message.mutable_lease();
  lease->set_lease_id(ToText(command.lease.lease_id));
  lease->set_attempt(command.lease.attempt);
  if (command.evaluation_id.has_value())
    lease->set_evaluation_id(ToText(*command.evaluation_id));
  lease->set_deadline_ms(ToMs(command.deadline));
  lease->set_arch(command.arch);
  std::visit([lease](const auto& grant) { Fill(grant, lease); }, command.work);
  return message;
}

v1::CoordinatorMessage ToProto(const SendCancelLease& command) {
  v1::CoordinatorMessage message;
  message.mutable_cancel_lease()->set_lease_id(ToText(command.lease.lease_id));
  message.mutable_cancel_lease()->set_attempt(command.lease.attempt);
  return message;
}

v1::CoordinatorMessage ToProto(const SendDrain& command) {
  v1::CoordinatorMessage message;
  message.mutable_drain()->set_reason(EscapeLine(command.reason));
  return message;
}

v1::CoordinatorMessage ToProto(const SendResultAck& command) {
  v1::CoordinatorMessage message;
  message.mutable_result_ack()->set_lease_id(ToText(command.lease.lease_id));
  message.mutable_result_ack()->set_attempt(command.lease.attempt);
  return message;
}

v1::CoordinatorMessage ToProto(const SendBuildReply& command) {
  v1::CoordinatorMessage message;
  v1::BuildReply* reply = message.mutable_build_reply();
  reply->set_request_id(command.build_request_id);
  if (command.infra_error.empty())
    *reply->mutable_build() = Parse<v1::BuildRecord>(command.build_payload);
  else
    reply->set_infra_error(EscapeLine(command.infra_error));
  return message;
}

v1::WorkerRecord ToProto(const WorkerView& view) {
  const auto hello = Parse<v1::Hello>(view.worker.hello_payload);
  v1::WorkerRecord record;
  record.set_worker_id(view.worker.worker_id.value);
  record.set_kind(ToProto(view.worker.kind));
  record.set_state(ToProto(view.state));
  record.set_host(hello.host());
  record.set_slots(view.worker.slots);
  record.set_leases(view.leases);
  *record.mutable_toolchain() = hello.toolchain();
  *record.mutable_devices() = hello.devices();
  *record.mutable_capabilities() = hello.capabilities();
  *record.mutable_sandbox_missing() = hello.sandbox_missing();
  record.set_last_seen_unix_ms(view.last_seen_unix_ms);
  record.set_certificate(view.certificate);
  record.set_certified_unix_ms(view.certified_unix_ms);
  record.set_canary_failure(EscapeLine(view.canary_failure));
  return record;
}

absl::Status ToStatus(Refusal refusal, const std::string& message) {
  switch (refusal) {
    case Refusal::kAlreadyExists:
      return absl::AlreadyExistsError(message);
    case Refusal::kFailedPrecondition:
      return absl::FailedPreconditionError(message);
    case Refusal::kResourceExhausted:
      return absl::ResourceExhaustedError(message);
    case Refusal::kPermissionDenied:
      return absl::PermissionDeniedError(message);
    case Refusal::kNone:
      break;
  }
  return absl::InternalError("refused without a reason");
}

}  // namespace pike::coordinator
