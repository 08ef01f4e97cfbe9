#include "tests/sim/describe.h"

#include <string>
#include <variant>
#include <vector>

#include <absl/strings/str_cat.h>

namespace pike::coordinator::sim {
namespace {

std::string Text(const LeaseRef& lease) {
  return absl::StrCat(ToText(lease.lease_id), "#", lease.attempt);
}

std::string Text(const std::vector<LeaseRef>& leases) {
  std::string text = "[";
  for (const LeaseRef& lease : leases)
    absl::StrAppend(&text, Text(lease), " ");
  return text + "]";
}

struct DescribeOutcome {
  std::string operator()(const CompileFinished& o) const {
    return absl::StrCat("compiled ", o.builds_payload);
  }
  std::string operator()(const VerdictReached& o) const {
    return absl::StrCat(Name(o.kind), " ", o.payload);
  }
  std::string operator()(const BuildFinished& o) const { return absl::StrCat("built ", o.payload); }
  std::string operator()(const InfraFailed& o) const {
    return absl::StrCat("infra ", o.reason, o.is_retryable ? "" : " for good");
  }
};

struct DescribeEvent {
  std::string operator()(const CoordinatorStarted&) const { return "CoordinatorStarted"; }
  std::string operator()(const TimePassed&) const { return "TimePassed"; }
  std::string operator()(const EvaluationSubmitted& e) const {
    return absl::StrCat("EvaluationSubmitted r", e.request.value, " ", e.payload, " key ",
                        e.client_key, " class ", e.demand.gpu_class);
  }
  std::string operator()(const CancelRequested& e) const {
    return absl::StrCat("CancelRequested r", e.request.value, " ", ToText(e.evaluation_id));
  }
  std::string operator()(const WorkerConnected& e) const {
    return absl::StrCat("WorkerConnected ", e.session.value, " ", e.worker.worker_id.value, " ",
                        Text(e.held_leases));
  }
  std::string operator()(const WorkerDisconnected& e) const {
    return absl::StrCat("WorkerDisconnected ", e.session.value);
  }
  std::string operator()(const HeartbeatReceived& e) const {
    return absl::StrCat("HeartbeatReceived ", e.session.value, " ", Text(e.held_leases));
  }
  std::string operator()(const StageChanged& e) const {
    return absl::StrCat("StageChanged ", e.session.value, " ", Text(e.lease), " ", Name(e.stage));
  }
  std::string operator()(const LeaseResultReceived& e) const {
    return absl::StrCat("LeaseResultReceived ", e.session.value, " ", Text(e.lease), " ",
                        std::visit(DescribeOutcome(), e.outcome));
  }
  std::string operator()(const BuildRequested& e) const {
    return absl::StrCat("BuildRequested ", e.session.value, " ", e.build_request_id, " for ",
                        ToText(e.lease_id));
  }
  std::string operator()(const DrainRequested& e) const {
    return absl::StrCat("DrainRequested r", e.request.value, " ", e.worker_id.value);
  }
  std::string operator()(const WorkerDraining& e) const {
    return absl::StrCat("WorkerDraining ", e.session.value);
  }
  std::string operator()(const ArtifactPublished& e) const {
    return absl::StrCat("ArtifactPublished r", e.request.value, " ", e.session.value);
  }
};

struct DescribeRecord {
  std::string operator()(const EpochStarted& r) const {
    return absl::StrCat("EpochStarted ", r.epoch, " ", r.evaluations_accepted);
  }
  std::string operator()(const EvaluationAccepted& r) const {
    return absl::StrCat("EvaluationAccepted ", ToText(r.evaluation_id), " ", r.payload);
  }
  std::string operator()(const LeaseGranted& r) const {
    return absl::StrCat("LeaseGranted ", ToText(r.evaluation_id), " ", Text(r.lease), " ",
                        Name(r.kind), " ", r.worker_id.value);
  }
  std::string operator()(const AttemptFailed& r) const {
    return absl::StrCat("AttemptFailed ", ToText(r.evaluation_id), " ", r.reason);
  }
  std::string operator()(const CompileStageDone& r) const {
    return absl::StrCat("CompileStageDone ", ToText(r.evaluation_id), " ", Text(r.lease));
  }
  std::string operator()(const EvaluationEnded& r) const {
    return absl::StrCat("EvaluationEnded ", ToText(r.evaluation_id), " ", Name(r.kind));
  }
  std::string operator()(const WorkerSeen& r) const {
    return absl::StrCat("WorkerSeen ", r.worker.worker_id.value);
  }
  std::string operator()(const WorkerForgotten& r) const {
    return absl::StrCat("WorkerForgotten ", r.worker_id.value);
  }
  std::string operator()(const WorkerDrained& r) const {
    return absl::StrCat("WorkerDrained ", r.worker_id.value);
  }
  std::string operator()(const EvaluationRestored& r) const {
    return absl::StrCat("EvaluationRestored ", ToText(r.accepted.evaluation_id));
  }
  std::string operator()(const ClientKeyKept& r) const {
    return absl::StrCat("ClientKeyKept ", r.client_key);
  }
  std::string operator()(const BestKept& r) const {
    return absl::StrCat("BestKept ", ToText(r.evaluation_id), " ", r.speedup);
  }
  std::string operator()(const CertificateGranted& r) const {
    return absl::StrCat("CertificateGranted ", r.certificate);
  }
  std::string operator()(const CanaryFailed& r) const {
    return absl::StrCat("CanaryFailed ", r.worker_id.value, " ", r.reason);
  }
  std::string operator()(const VerdictWithdrawn& r) const {
    return absl::StrCat("VerdictWithdrawn ", ToText(r.evaluation_id), " ", r.reason);
  }
  std::string operator()(const VerdictKept& r) const {
    return absl::StrCat("VerdictKept ", ToText(r.accepted.evaluation_id));
  }
};

struct DescribeCommand {
  std::string operator()(const AppendRecord& c) const { return Describe(c.record); }
  std::string operator()(const AnswerSubmit& c) const {
    return absl::StrCat("AnswerSubmit r", c.request.value, " ", static_cast<int>(c.outcome), " ",
                        ToText(c.evaluation_id), " ", c.message);
  }
  std::string operator()(const AnswerCancel& c) const {
    return absl::StrCat("AnswerCancel r", c.request.value, " ", c.was_active);
  }
  std::string operator()(const AnswerDrain& c) const {
    return absl::StrCat("AnswerDrain r", c.request.value, " ", c.found);
  }
  std::string operator()(const AnswerPublish& c) const {
    return absl::StrCat("AnswerPublish r", c.request.value, " ", c.message);
  }
  std::string operator()(const SendWelcome& c) const {
    std::string text = absl::StrCat("SendWelcome ", c.session.value, " revoked");
    for (const LeaseId id : c.revoked_leases)
      absl::StrAppend(&text, " ", ToText(id));
    return text;
  }
  std::string operator()(const SendRefused& c) const {
    return absl::StrCat("SendRefused ", c.session.value, " ", c.reason);
  }
  std::string operator()(const SendLease& c) const {
    return absl::StrCat("SendLease ", c.session.value, " ", Text(c.lease), " ",
                        c.evaluation_id.has_value() ? ToText(*c.evaluation_id) : "build", " ",
                        c.deadline.count(), " ms");
  }
  std::string operator()(const SendCancelLease& c) const {
    return absl::StrCat("SendCancelLease ", c.session.value, " ", Text(c.lease));
  }
  std::string operator()(const SendDrain& c) const {
    return absl::StrCat("SendDrain ", c.session.value);
  }
  std::string operator()(const SendResultAck& c) const {
    return absl::StrCat("SendResultAck ", c.session.value, " ", Text(c.lease));
  }
  std::string operator()(const SendBuildReply& c) const {
    return absl::StrCat("SendBuildReply ", c.session.value, " ", c.build_request_id, " ",
                        c.build_payload, c.infra_error);
  }
  std::string operator()(const CloseSession& c) const {
    return absl::StrCat("CloseSession ", c.session.value, " ", c.reason);
  }
  std::string operator()(const NotifyStage& c) const {
    return absl::StrCat("NotifyStage ", ToText(c.evaluation_id), " ", Name(c.stage), " ",
                        c.queue_position, " ", c.attempt);
  }
  std::string operator()(const EndEvaluation& c) const {
    const auto kind = std::visit([](const auto& v) { return v.kind; }, c.verdict);
    return absl::StrCat("EndEvaluation ", ToText(c.evaluation_id), " ", Name(kind), " attempt ",
                        c.attempt);
  }
  std::string operator()(const ObserveQueueWait& c) const {
    return absl::StrCat("ObserveQueueWait ", c.wait.count());
  }
  std::string operator()(const CountRetry& c) const {
    return absl::StrCat("CountRetry ", Name(c.reason));
  }
  std::string operator()(const ReportCanaries& c) const {
    return absl::StrCat("ReportCanaries ", c.worker_id.value, " ", Name(c.outcome), " ",
                        c.withdrawn);
  }
};

}  // namespace

std::string Describe(const Event& event) {
  return std::visit(DescribeEvent(), event);
}

std::string Describe(const Command& command) {
  return std::visit(DescribeCommand(), command);
}

std::string Describe(const Record& record) {
  return std::visit(DescribeRecord(), record);
}

}  // namespace pike::coordinator::sim
