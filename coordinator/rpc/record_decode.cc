// The other half of record_codec.h.
#include <optional>
#include <utility>

#include "coordinator/rpc/convert.h"
#include "coordinator/rpc/record_codec.h"
#include "pike/store/v1/log.pb.h"

namespace pike::coordinator {
namespace {

namespace pb = ::pike::store::v1;

LeaseRef Decode(const pb::LeaseRef& in) {
  return {.lease_id = {.epoch = in.epoch(), .number = in.number()}, .attempt = in.attempt()};
}

BuildTarget Decode(const pb::BuildTarget& in) {
  return {.runtime_digest = in.runtime_digest(), .arch = in.arch()};
}

PolicyTimes Decode(const pb::PolicyTimes& in) {
  return {.queue_timeout = Milliseconds(in.queue_timeout_ms()),
          .compile_timeout = Milliseconds(in.compile_timeout_ms()),
          .build_timeout = Milliseconds(in.build_timeout_ms()),
          .load_timeout = Milliseconds(in.load_timeout_ms()),
          .first_call_timeout = Milliseconds(in.first_call_timeout_ms()),
          .call_timeout = Milliseconds(in.call_timeout_ms()),
          .timed_max = Milliseconds(in.timed_max_ms()),
          .correctness_trials = in.correctness_trials(),
          .warmup_calls = in.warmup_calls()};
}

EvaluationAccepted Decode(const pb::EvaluationAccepted& in) {
  return {.evaluation_id = {in.evaluation()},
          .principal = {in.principal()},
          .client_key = in.client_key(),
          .request_digest = in.request_digest(),
          .demand = {.gpu_class = in.demand().gpu_class(),
                     .toolchain_digest = in.demand().toolchain_digest()},
          .times = Decode(in.times()),
          .payload = in.payload(),
          .submitted_unix_ms = in.submitted_unix_ms(),
          .contest = in.contest()};
}

std::optional<Record> Decode(const pb::LeaseGranted& in) {
  LeaseKind kind = LeaseKind::kCompile;
  switch (in.kind()) {
    case pb::LEASE_KIND_COMPILE:
      kind = LeaseKind::kCompile;
      break;
    case pb::LEASE_KIND_RUN:
      kind = LeaseKind::kRun;
      break;
    case pb::LEASE_KIND_BUILD:
      kind = LeaseKind::kBuild;
      break;
    default:
      return std::nullopt;
  }
  return LeaseGranted{.lease = Decode(in.lease()),
                      .evaluation_id = {in.evaluation()},
                      .kind = kind,
                      .worker_id = {in.worker_id()},
                      .target = Decode(in.target()),
                      .granted_unix_ms = in.granted_unix_ms(),
                      .queued = Milliseconds(in.queued_ms())};
}

AttemptFailed Decode(const pb::AttemptFailed& in) {
  return {.lease = Decode(in.lease()),
          .evaluation_id = {in.evaluation()},
          .reason = in.reason(),
          .at_unix_ms = in.at_unix_ms()};
}

CompileStageDone Decode(const pb::CompileStageDone& in) {
  return {.lease = Decode(in.lease()),
          .evaluation_id = {in.evaluation()},
          .target = Decode(in.target()),
          .builds_payload = in.builds_payload(),
          .times_payload = in.times_payload(),
          .at_unix_ms = in.at_unix_ms()};
}

std::optional<Record> Decode(const pb::EvaluationEnded& in) {
  const auto kind = FromProto(static_cast<v1::VerdictKind>(in.verdict_kind()));
  if (!kind.has_value())
    return std::nullopt;
  return EvaluationEnded{.evaluation_id = {in.evaluation()},
                         .kind = *kind,
                         .ended_unix_ms = in.ended_unix_ms(),
                         .gpu_class = in.gpu_class(),
                         .speedup = in.speedup(),
                         .kept_of = {in.kept_of()}};
}

std::optional<Record> Decode(const pb::WorkerSeen& in) {
  const auto kind = FromProto(static_cast<v1::WorkerKind>(in.kind()));
  if (!kind.has_value())
    return std::nullopt;
  return WorkerSeen{.worker = {.worker_id = {in.worker_id()},
                               .kind = *kind,
                               .slots = in.slots(),
                               .toolchain_digest = in.toolchain_digest(),
                               .runtime_digest = in.runtime_digest(),
                               .gpu_class = in.gpu_class(),
                               .arch = in.arch(),
                               .can_build = in.can_build(),
                               .hello_payload = in.hello_payload()}};
}

EvaluationRestored Decode(const pb::EvaluationRestored& in) {
  EvaluationRestored record{
      .accepted = Decode(in.accepted()),
      .stage = in.is_past_compile() ? Stage::kQueuedRun : Stage::kQueuedCompile,
      .attempts = in.attempts(),
      .earlier_attempts = {in.earlier_attempts().begin(), in.earlier_attempts().end()},
      .queued_unix_ms = in.queued_unix_ms(),
      .queued_compile = Milliseconds(in.queued_compile_ms()),
      .queued_run = Milliseconds(in.queued_run_ms())};
  if (in.has_compiled())
    record.compiled = Decode(in.compiled());
  return record;
}

ClientKeyKept Decode(const pb::ClientKeyKept& in) {
  return {.principal = {in.principal()},
          .client_key = in.client_key(),
          .request_digest = in.request_digest(),
          .evaluation_id = {in.evaluation()}};
}

CertificateGranted Decode(const pb::CertificateGranted& in) {
  return {.worker_id = {in.worker_id()},
          .certificate = in.certificate(),
          .number = in.number(),
          .certified_unix_ms = in.certified_unix_ms(),
          .begun_unix_ms = in.begun_unix_ms()};
}

VerdictKept Decode(const pb::VerdictKept& in) {
  return {.accepted = Decode(in.accepted()),
          .worker_id = {in.worker_id()},
          .ended_unix_ms = in.ended_unix_ms(),
          .earlier_attempts = {in.earlier_attempts().begin(), in.earlier_attempts().end()}};
}

BestKept Decode(const pb::BestKept& in) {
  return {.contest = in.contest(),
          .gpu_class = in.gpu_class(),
          .speedup = in.speedup(),
          .evaluation_id = {in.evaluation()}};
}

std::optional<Record> Decode(const pb::LogRecord& in) {
  switch (in.record_case()) {
    case pb::LogRecord::kEpochStarted:
      return EpochStarted{.epoch = in.epoch_started().epoch(),
                          .evaluations_accepted = in.epoch_started().evaluations_accepted()};
    case pb::LogRecord::kEvaluationAccepted:
      return Decode(in.evaluation_accepted());
    case pb::LogRecord::kLeaseGranted:
      return Decode(in.lease_granted());
    case pb::LogRecord::kAttemptFailed:
      return Decode(in.attempt_failed());
    case pb::LogRecord::kCompileStageDone:
      return Decode(in.compile_stage_done());
    case pb::LogRecord::kEvaluationEnded:
      return Decode(in.evaluation_ended());
    case pb::LogRecord::kWorkerSeen:
      return Decode(in.worker_seen());
    case pb::LogRecord::kWorkerForgotten:
      return WorkerForgotten{.worker_id = {in.worker_forgotten().worker_id()}};
    case pb::LogRecord::kWorkerDrained:
      return WorkerDrained{.worker_id = {in.worker_drained().worker_id()},
                           .reason = in.worker_drained().reason()};
    case pb::LogRecord::kEvaluationRestored:
      return Decode(in.evaluation_restored());
    case pb::LogRecord::kClientKeyKept:
      return Decode(in.client_key_kept());
    case pb::LogRecord::kBestKept:
      return Decode(in.best_kept());
    case pb::LogRecord::kCertificateGranted:
      return Decode(in.certificate_granted());
    case pb::LogRecord::kCanaryFailed:
      return CanaryFailed{.worker_id = {in.canary_failed().worker_id()},
                          .reason = in.canary_failed().reason()};
    case pb::LogRecord::kVerdictWithdrawn:
      return VerdictWithdrawn{.evaluation_id = {in.verdict_withdrawn().evaluation()},
                              .reason = in.verdict_withdrawn().reason(),
                              .at_unix_ms = in.verdict_withdrawn().at_unix_ms()};
    case pb::LogRecord::kVerdictKept:
      return Decode(in.verdict_kept());
    case pb::LogRecord::RECORD_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Record> DecodeRecord(absl::string_view bytes) {
  pb::LogRecord in;
  if (in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    std::optional<Record> record = Decode(in);
    if (record.has_value())
      return *std::move(record);
  }
  return absl::DataLossError("the log holds a record that this pike does not understand");
}

}  // namespace pike::coordinator
