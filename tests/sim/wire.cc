#include "tests/sim/wire.h"

#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator::sim {
namespace {

LeaseRef RefOf(const std::string& lease_id, uint32_t attempt) {
  const auto id = ParseLeaseId(lease_id);
  PIKE_CHECK(id.has_value());
  return {*id, attempt};
}

template <typename Message>
void SetRef(const LeaseRef& ref, Message* message) {
  message->set_lease_id(ToText(ref.lease_id));
  message->set_attempt(ref.attempt);
}

template <typename Held>
std::vector<LeaseRef> HeldOf(const Held& held) {
  std::vector<LeaseRef> refs;
  for (const v1::HeldLease& lease : held)
    refs.push_back(RefOf(lease.lease_id(), lease.attempt()));
  return refs;
}

// Both enumerations have the same order; the wire's begins with "unspecified".
Stage StageOf(v1::Stage stage) {
  return static_cast<Stage>(static_cast<int>(stage) - 1);
}

WorkerFacts FactsOf(const v1::Hello& hello) {
  WorkerFacts facts;
  facts.worker_id = {hello.worker_id()};
  facts.kind = hello.kind() == v1::WORKER_KIND_COMPILE ? WorkerKind::kCompile : WorkerKind::kGpu;
  facts.slots = hello.slots();
  facts.toolchain_digest = hello.toolchain().digest();
  facts.runtime_digest = hello.toolchain().runtime_digest();
  if (hello.devices_size() > 0) {
    facts.gpu_class = hello.devices(0).gpu_class();
    facts.arch = hello.devices(0).arch();
  }
  facts.can_build = hello.can_build();
  return facts;
}

LeaseOutcome OutcomeOf(const v1::LeaseResult& result) {
  switch (result.outcome_case()) {
    case v1::LeaseResult::kVerdict:
      return VerdictReached{static_cast<VerdictKind>(static_cast<int>(result.verdict().kind()) - 1),
                            result.verdict().reason(), result.verdict().measurement().speedup()};
    case v1::LeaseResult::kCompiled:
      return CompileFinished{result.compiled().note()};
    case v1::LeaseResult::kBuild:
      return BuildFinished{result.build().name()};
    case v1::LeaseResult::kInfraFailure:
      return InfraFailed{result.infra_failure().reason(), result.infra_failure().is_retryable(),
                         Blame::kInfrastructure};
    case v1::LeaseResult::OUTCOME_NOT_SET:
      return InfraFailed{"a result without an outcome", true, Blame::kInfrastructure};
  }
  PIKE_CHECK(false);
}

}  // namespace

std::optional<Event> EventOf(const v1::WorkerMessage& message, const SessionId& session) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kHello:
      return WorkerConnected{session, FactsOf(message.hello()),
                             HeldOf(message.hello().held_leases())};
    case v1::WorkerMessage::kHeartbeat:
      return HeartbeatReceived{session, HeldOf(message.heartbeat().held_leases())};
    case v1::WorkerMessage::kStageChange: {
      const v1::StageChange& change = message.stage_change();
      return StageChanged{session, RefOf(change.lease_id(), change.attempt()),
                          StageOf(change.stage())};
    }
    case v1::WorkerMessage::kLeaseResult: {
      const v1::LeaseResult& result = message.lease_result();
      return LeaseResultReceived{session, RefOf(result.lease_id(), result.attempt()), "times",
                                 OutcomeOf(result)};
    }
    case v1::WorkerMessage::kBuildRequest: {
      const v1::BuildRequest& request = message.build_request();
      return BuildRequested{session,
                            request.request_id(),
                            RefOf(request.lease_id(), 0).lease_id,
                            request.request_sha256(),
                            request.arch(),
                            Milliseconds(request.timeout_ms())};
    }
    case v1::WorkerMessage::kDraining:
      return WorkerDraining{session, message.draining().reason()};
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      return std::nullopt;
  }
  PIKE_CHECK(false);
}

v1::CoordinatorMessage MessageOf(const SendWelcome& command) {
  v1::CoordinatorMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_session_id(command.session.value);
  welcome->set_heartbeat_interval_ms(static_cast<uint32_t>(command.heartbeat_interval.count()));
  for (const LeaseId id : command.revoked_leases)
    welcome->add_revoked_lease_ids(ToText(id));
  return message;
}

v1::CoordinatorMessage MessageOf(const SendRefused& command) {
  v1::CoordinatorMessage message;
  message.mutable_refused()->set_reason(command.reason);
  return message;
}

v1::CoordinatorMessage MessageOf(const SendLease& command) {
  v1::CoordinatorMessage message;
  v1::Lease* lease = message.mutable_lease();
  SetRef(command.lease, lease);
  if (command.evaluation_id.has_value())
    lease->set_evaluation_id(ToText(*command.evaluation_id));
  lease->set_deadline_ms(static_cast<uint32_t>(command.deadline.count()));
  lease->set_arch(command.arch);
  if (const auto* compile = std::get_if<CompileGrant>(&command.work))
    lease->mutable_compile()->set_candidate_sha256(compile->payload);
  if (const auto* run = std::get_if<RunGrant>(&command.work)) {
    lease->mutable_run()->set_candidate_sha256(run->payload);
    lease->mutable_run()->set_toolchain_digest(run->runtime_digest);
  }
  if (const auto* build = std::get_if<BuildGrant>(&command.work))
    lease->mutable_build()->set_request_sha256(build->request_sha256);
  return message;
}

v1::CoordinatorMessage MessageOf(const SendCancelLease& command) {
  v1::CoordinatorMessage message;
  SetRef(command.lease, message.mutable_cancel_lease());
  return message;
}

v1::CoordinatorMessage MessageOf(const SendDrain& command) {
  v1::CoordinatorMessage message;
  message.mutable_drain()->set_reason(command.reason);
  return message;
}

v1::CoordinatorMessage MessageOf(const SendResultAck& command) {
  v1::CoordinatorMessage message;
  SetRef(command.lease, message.mutable_result_ack());
  return message;
}

v1::CoordinatorMessage MessageOf(const SendBuildReply& command) {
  v1::CoordinatorMessage message;
  v1::BuildReply* reply = message.mutable_build_reply();
  reply->set_request_id(command.build_request_id);
  reply->mutable_build()->set_name(command.build_payload);
  reply->set_infra_error(command.infra_error);
  return message;
}

v1::Hello HelloOf(const WorkerFacts& facts) {
  v1::Hello hello;
  hello.set_worker_id(facts.worker_id.value);
  hello.set_kind(facts.kind == WorkerKind::kCompile ? v1::WORKER_KIND_COMPILE
                                                    : v1::WORKER_KIND_GPU);
  hello.set_slots(facts.slots);
  hello.mutable_toolchain()->set_digest(facts.toolchain_digest);
  hello.mutable_toolchain()->set_runtime_digest(facts.runtime_digest);
  hello.set_can_build(facts.can_build);
  if (facts.kind == WorkerKind::kGpu) {
    v1::Device* device = hello.add_devices();
    device->set_gpu_class(facts.gpu_class);
    device->set_arch(facts.arch);
  }
  return hello;
}

}  // namespace pike::coordinator::sim
