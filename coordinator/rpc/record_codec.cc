#include "coordinator/rpc/record_codec.h"

#include <optional>
#include <utility>
#include <variant>

#include "common/base/status_macros.h"
#include "coordinator/rpc/convert.h"
#include "pike/store/v1/log.pb.h"

namespace pike::coordinator {
namespace {

namespace pb = ::pike::store::v1;

// Written as the API's enum, so that the file format does not follow the order of ours.
pb::LeaseKind Encode(LeaseKind kind) {
  switch (kind) {
    case LeaseKind::kCompile:
      return pb::LEASE_KIND_COMPILE;
    case LeaseKind::kRun:
      return pb::LEASE_KIND_RUN;
    case LeaseKind::kBuild:
      return pb::LEASE_KIND_BUILD;
    case LeaseKind::kCanary:
      break;  // never in the log
  }
  return pb::LEASE_KIND_UNSPECIFIED;
}

void Encode(const LeaseRef& lease, pb::LeaseRef* out) {
  out->set_epoch(lease.lease_id.epoch);
  out->set_number(lease.lease_id.number);
  out->set_attempt(lease.attempt);
}

void Encode(const BuildTarget& target, pb::BuildTarget* out) {
  out->set_runtime_digest(target.runtime_digest);
  out->set_arch(target.arch);
}

void Encode(const PolicyTimes& times, pb::PolicyTimes* out) {
  out->set_queue_timeout_ms(times.queue_timeout.count());
  out->set_compile_timeout_ms(times.compile_timeout.count());
  out->set_build_timeout_ms(times.build_timeout.count());
  out->set_load_timeout_ms(times.load_timeout.count());
  out->set_first_call_timeout_ms(times.first_call_timeout.count());
  out->set_call_timeout_ms(times.call_timeout.count());
  out->set_timed_max_ms(times.timed_max.count());
  out->set_correctness_trials(times.correctness_trials);
  out->set_warmup_calls(times.warmup_calls);
}

void Encode(const EpochStarted& record, pb::EpochStarted* out) {
  out->set_epoch(record.epoch);
  out->set_evaluations_accepted(record.evaluations_accepted);
}

void Encode(const EvaluationAccepted& record, pb::EvaluationAccepted* out) {
  out->set_evaluation(record.evaluation_id.value);
  out->set_principal(record.principal.value);
  out->set_client_key(record.client_key);
  out->set_request_digest(record.request_digest);
  out->mutable_demand()->set_gpu_class(record.demand.gpu_class);
  out->mutable_demand()->set_toolchain_digest(record.demand.toolchain_digest);
  Encode(record.times, out->mutable_times());
  out->set_payload(record.payload);
  out->set_submitted_unix_ms(record.submitted_unix_ms);
  out->set_contest(record.contest);
}

void Encode(const LeaseGranted& record, pb::LeaseGranted* out) {
  Encode(record.lease, out->mutable_lease());
  out->set_evaluation(record.evaluation_id.value);
  out->set_kind(Encode(record.kind));
  out->set_worker_id(record.worker_id.value);
  Encode(record.target, out->mutable_target());
  out->set_granted_unix_ms(record.granted_unix_ms);
  out->set_queued_ms(record.queued.count());
}

void Encode(const AttemptFailed& record, pb::AttemptFailed* out) {
  Encode(record.lease, out->mutable_lease());
  out->set_evaluation(record.evaluation_id.value);
  out->set_reason(record.reason);
  out->set_at_unix_ms(record.at_unix_ms);
}

void Encode(const CompileStageDone& record, pb::CompileStageDone* out) {
  Encode(record.lease, out->mutable_lease());
  out->set_evaluation(record.evaluation_id.value);
  Encode(record.target, out->mutable_target());
  out->set_builds_payload(record.builds_payload);
  out->set_times_payload(record.times_payload);
  out->set_at_unix_ms(record.at_unix_ms);
}

void Encode(const EvaluationEnded& record, pb::EvaluationEnded* out) {
  out->set_evaluation(record.evaluation_id.value);
  out->set_verdict_kind(static_cast<uint32_t>(ToProto(record.kind)));
  out->set_ended_unix_ms(record.ended_unix_ms);
  out->set_gpu_class(record.gpu_class);
  out->set_speedup(record.speedup);
  out->set_kept_of(record.kept_of.value);
}

void Encode(const WorkerSeen& record, pb::WorkerSeen* out) {
  const WorkerFacts& worker = record.worker;
  out->set_worker_id(worker.worker_id.value);
  out->set_kind(static_cast<uint32_t>(ToProto(worker.kind)));
  out->set_slots(worker.slots);
  out->set_toolchain_digest(worker.toolchain_digest);
  out->set_runtime_digest(worker.runtime_digest);
  out->set_gpu_class(worker.gpu_class);
  out->set_arch(worker.arch);
  out->set_can_build(worker.can_build);
  out->set_hello_payload(worker.hello_payload);
}

void Encode(const EvaluationRestored& record, pb::EvaluationRestored* out) {
  Encode(record.accepted, out->mutable_accepted());
  out->set_is_past_compile(record.stage == Stage::kQueuedRun);
  out->set_attempts(record.attempts);
  for (const std::string& line : record.earlier_attempts)
    out->add_earlier_attempts(line);
  if (record.compiled.has_value())
    Encode(*record.compiled, out->mutable_compiled());
  out->set_queued_unix_ms(record.queued_unix_ms);
  out->set_queued_compile_ms(record.queued_compile.count());
  out->set_queued_run_ms(record.queued_run.count());
}

void Encode(const ClientKeyKept& record, pb::ClientKeyKept* out) {
  out->set_principal(record.principal.value);
  out->set_client_key(record.client_key);
  out->set_request_digest(record.request_digest);
  out->set_evaluation(record.evaluation_id.value);
}

void Encode(const BestKept& record, pb::BestKept* out) {
  out->set_contest(record.contest);
  out->set_gpu_class(record.gpu_class);
  out->set_speedup(record.speedup);
  out->set_evaluation(record.evaluation_id.value);
}

void Encode(const CertificateGranted& record, pb::CertificateGranted* out) {
  out->set_worker_id(record.worker_id.value);
  out->set_certificate(record.certificate);
  out->set_number(record.number);
  out->set_certified_unix_ms(record.certified_unix_ms);
  out->set_begun_unix_ms(record.begun_unix_ms);
}

void Encode(const VerdictWithdrawn& record, pb::VerdictWithdrawn* out) {
  out->set_evaluation(record.evaluation_id.value);
  out->set_reason(record.reason);
  out->set_at_unix_ms(record.at_unix_ms);
}

void Encode(const VerdictKept& record, pb::VerdictKept* out) {
  Encode(record.accepted, out->mutable_accepted());
  out->set_worker_id(record.worker_id.value);
  out->set_ended_unix_ms(record.ended_unix_ms);
  for (const std::string& line : record.earlier_attempts)
    out->add_earlier_attempts(line);
}

struct RecordEncoder {
  pb::LogRecord* out;

  void operator()(const EpochStarted& r) { Encode(r, out->mutable_epoch_started()); }
  void operator()(const EvaluationAccepted& r) { Encode(r, out->mutable_evaluation_accepted()); }
  void operator()(const LeaseGranted& r) { Encode(r, out->mutable_lease_granted()); }
  void operator()(const AttemptFailed& r) { Encode(r, out->mutable_attempt_failed()); }
  void operator()(const CompileStageDone& r) { Encode(r, out->mutable_compile_stage_done()); }
  void operator()(const EvaluationEnded& r) { Encode(r, out->mutable_evaluation_ended()); }
  void operator()(const WorkerSeen& r) { Encode(r, out->mutable_worker_seen()); }
  void operator()(const WorkerForgotten& r) {
    out->mutable_worker_forgotten()->set_worker_id(r.worker_id.value);
  }
  void operator()(const WorkerDrained& r) {
    out->mutable_worker_drained()->set_worker_id(r.worker_id.value);
    out->mutable_worker_drained()->set_reason(r.reason);
  }
  void operator()(const EvaluationRestored& r) { Encode(r, out->mutable_evaluation_restored()); }
  void operator()(const ClientKeyKept& r) { Encode(r, out->mutable_client_key_kept()); }
  void operator()(const BestKept& r) { Encode(r, out->mutable_best_kept()); }
  void operator()(const CertificateGranted& r) { Encode(r, out->mutable_certificate_granted()); }
  void operator()(const CanaryFailed& r) {
    out->mutable_canary_failed()->set_worker_id(r.worker_id.value);
    out->mutable_canary_failed()->set_reason(r.reason);
  }
  void operator()(const VerdictWithdrawn& r) { Encode(r, out->mutable_verdict_withdrawn()); }
  void operator()(const VerdictKept& r) { Encode(r, out->mutable_verdict_kept()); }
};

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

std::string EncodeRecord(const Record& record) {
  pb::LogRecord out;
  std::visit(RecordEncoder{&out}, record);
  return out.SerializeAsString();
}

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
