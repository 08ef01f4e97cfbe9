// What workers say: checked for form, then turned into events. The core judges the rest.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "coordinator/rpc/convert.h"
#include "coordinator/rpc/validate.h"
#include "pike/store/v1/log.pb.h"

namespace pike::coordinator {
namespace {

constexpr int kDevicesMax = 64;
constexpr int kCapabilitiesMax = 64;
constexpr int kHeldLeasesMax = 4096;

absl::StatusOr<LeaseRef> FromProto(const std::string& lease_id, uint32_t attempt) {
  const std::optional<LeaseId> id = ParseLeaseId(lease_id);
  if (!id.has_value())
    return absl::InvalidArgumentError("malformed lease id");
  return LeaseRef{.lease_id = *id, .attempt = attempt};
}

template <typename HeldLeases>
absl::StatusOr<std::vector<LeaseRef>> FromProto(const HeldLeases& held) {
  if (held.size() > kHeldLeasesMax)
    return absl::InvalidArgumentError(absl::StrCat("more than ", kHeldLeasesMax, " held leases"));
  std::vector<LeaseRef> leases;
  for (const v1::HeldLease& lease : held) {
    ASSIGN_OR_RETURN(const LeaseRef ref, FromProto(lease.lease_id(), lease.attempt()));
    leases.push_back(ref);
  }
  return leases;
}

absl::Status CheckToolchain(const v1::Toolchain& toolchain) {
  if (!IsSha256Hex(toolchain.digest()) || !IsSha256Hex(toolchain.runtime_digest()))
    return absl::InvalidArgumentError(
        "toolchain.digest and toolchain.runtime_digest must be SHA-256 as 64 lower-case hex "
        "characters");
  return absl::OkStatus();
}

absl::Status CheckDevices(const v1::Hello& hello) {
  if (hello.kind() == v1::WORKER_KIND_COMPILE) {
    if (!hello.devices().empty())
      return absl::InvalidArgumentError("a compile worker has no devices");
    return hello.can_build() ? absl::OkStatus()
                             : absl::InvalidArgumentError("a compile worker must be able to build");
  }
  if (hello.devices().empty() || hello.devices_size() > kDevicesMax)
    return absl::InvalidArgumentError(
        absl::StrCat("a GPU worker has 1 to ", kDevicesMax, " devices"));
  const v1::Device& first = hello.devices(0);
  for (const v1::Device& device : hello.devices()) {
    if (device.device_id().empty() || device.gpu_class().empty() || device.arch().empty())
      return absl::InvalidArgumentError("every device needs a device_id, a gpu_class and an arch");
    if (device.gpu_class() != first.gpu_class() || device.arch() != first.arch())
      return absl::InvalidArgumentError(
          "all devices of one worker must be of one class; start one worker per class");
  }
  return absl::OkStatus();
}

// A number that is none is taken for none measured.
double SpeedupOf(const v1::Verdict& verdict) {
  const double speedup = verdict.measurement().speedup();
  return std::isfinite(speedup) && speedup > 0 ? speedup : 0;
}

LeaseOutcome FromProto(const std::string& toolchain_digest, const v1::LeaseResult& result) {
  switch (result.outcome_case()) {
    case v1::LeaseResult::kVerdict: {
      const auto kind = pike::coordinator::FromProto(result.verdict().kind());
      if (kind.has_value() && *kind != VerdictKind::kCancelled)
        return VerdictReached{.kind = *kind,
                              .payload = result.verdict().SerializeAsString(),
                              .speedup = SpeedupOf(result.verdict())};
      return InfraFailed{.reason = "the worker sent a verdict without a kind"};
    }
    case v1::LeaseResult::kCompiled: {
      store::v1::BuildsPayload payload;
      *payload.mutable_compiled() = result.compiled();
      payload.set_toolchain_digest(toolchain_digest);
      return CompileFinished{.builds_payload = payload.SerializeAsString()};
    }
    case v1::LeaseResult::kBuild:
      return BuildFinished{.payload = result.build().SerializeAsString()};
    case v1::LeaseResult::kInfraFailure:
      return InfraFailed{.reason = result.infra_failure().reason(),
                         .is_retryable = result.infra_failure().is_retryable(),
                         .blame = pike::coordinator::FromProto(result.infra_failure().blame())};
    case v1::LeaseResult::OUTCOME_NOT_SET:
      return InfraFailed{.reason = "the worker sent a result without an outcome"};
  }
  return InfraFailed{.reason = "the worker sent an outcome of an unknown kind"};
}

absl::StatusOr<Event> FromBuildRequest(const SessionId& session, const v1::BuildRequest& request) {
  const std::optional<LeaseId> lease_id = ParseLeaseId(request.lease_id());
  if (!lease_id.has_value())
    return absl::InvalidArgumentError("malformed lease id");
  RETURN_IF_ERROR(CheckDigest("request_sha256", request.request_sha256()));
  return BuildRequested{.session = session,
                        .build_request_id = request.request_id(),
                        .lease_id = *lease_id,
                        .request_sha256 = request.request_sha256(),
                        .arch = request.arch(),
                        .timeout = Milliseconds(request.timeout_ms())};
}

}  // namespace

absl::StatusOr<WorkerConnected> FromHello(const SessionId& session, const v1::Hello& hello) {
  RETURN_IF_ERROR(CheckWorkerId(hello.worker_id()));
  const std::optional<WorkerKind> kind = FromProto(hello.kind());
  if (!kind.has_value())
    return absl::InvalidArgumentError("kind must be compile or GPU");
  if (hello.slots() == 0)
    return absl::InvalidArgumentError("slots must be at least 1");
  if (hello.capabilities_size() + hello.sandbox_missing_size() > kCapabilitiesMax)
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kCapabilitiesMax, " capabilities"));
  RETURN_IF_ERROR(CheckToolchain(hello.toolchain()));
  RETURN_IF_ERROR(CheckDevices(hello));
  ASSIGN_OR_RETURN(std::vector<LeaseRef> held, FromProto(hello.held_leases()));
  v1::Hello shown = hello;
  shown.clear_held_leases();
  WorkerConnected event{.session = session,
                        .worker = {.worker_id = {hello.worker_id()},
                                   .kind = *kind,
                                   .slots = hello.slots(),
                                   .toolchain_digest = hello.toolchain().digest(),
                                   .runtime_digest = hello.toolchain().runtime_digest(),
                                   .can_build = hello.can_build(),
                                   .hello_payload = shown.SerializeAsString()},
                        .held_leases = std::move(held)};
  if (*kind == WorkerKind::kGpu) {
    event.worker.gpu_class = hello.devices(0).gpu_class();
    event.worker.arch = hello.devices(0).arch();
  }
  return event;
}

absl::StatusOr<Event> FromWorker(const SessionId& session, const std::string& toolchain_digest,
                                 const v1::WorkerMessage& message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kHeartbeat: {
      ASSIGN_OR_RETURN(std::vector<LeaseRef> held, FromProto(message.heartbeat().held_leases()));
      return HeartbeatReceived{.session = session, .held_leases = std::move(held)};
    }
    case v1::WorkerMessage::kStageChange: {
      const v1::StageChange& change = message.stage_change();
      ASSIGN_OR_RETURN(const LeaseRef lease, FromProto(change.lease_id(), change.attempt()));
      const std::optional<Stage> stage = FromProto(change.stage());
      if (!stage.has_value())
        return absl::InvalidArgumentError("stage change without a stage");
      return StageChanged{.session = session, .lease = lease, .stage = *stage};
    }
    case v1::WorkerMessage::kLeaseResult: {
      const v1::LeaseResult& result = message.lease_result();
      ASSIGN_OR_RETURN(const LeaseRef lease, FromProto(result.lease_id(), result.attempt()));
      return LeaseResultReceived{.session = session,
                                 .lease = lease,
                                 .times_payload = result.times().SerializeAsString(),
                                 .outcome = FromProto(toolchain_digest, result)};
    }
    case v1::WorkerMessage::kBuildRequest:
      return FromBuildRequest(session, message.build_request());
    case v1::WorkerMessage::kDraining:
      return WorkerDraining{.session = session, .reason = message.draining().reason()};
    case v1::WorkerMessage::kHello:
      return absl::InvalidArgumentError("a second Hello on one stream");
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message of an unknown kind");
}

}  // namespace pike::coordinator
