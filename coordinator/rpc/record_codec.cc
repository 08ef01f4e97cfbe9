#include "coordinator/rpc/record_codec.h"

#include <variant>

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

}  // namespace

std::string EncodeRecord(const Record& record) {
  pb::LogRecord out;
  std::visit(RecordEncoder{&out}, record);
  return out.SerializeAsString();
}

}  // namespace pike::coordinator
