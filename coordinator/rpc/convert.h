#pragma once

#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "coordinator/core/command.h"
#include "coordinator/core/core.h"
#include "coordinator/core/event.h"
#include "coordinator/core/types.h"
#include "pike/v1/admin.pb.h"
#include "pike/v1/types.pb.h"
#include "pike/v1/worker.pb.h"

// Between the API's messages and the core's types: with record_codec.h and evaluation_record.h the
// only code that knows both. Pure.
namespace pike::coordinator {

v1::Stage ToProto(Stage stage);
v1::VerdictKind ToProto(VerdictKind kind);
v1::Blame ToProto(Blame blame);
v1::WorkerKind ToProto(WorkerKind kind);
v1::WorkerState ToProto(WorkerState state);

// Nothing for values that are unspecified or unknown.
std::optional<Stage> FromProto(v1::Stage stage);
std::optional<VerdictKind> FromProto(v1::VerdictKind kind);
std::optional<WorkerKind> FromProto(v1::WorkerKind kind);
Blame FromProto(v1::Blame blame);

// A Hello as the core takes it. InvalidArgument: one line for the Refused message.
absl::StatusOr<WorkerConnected> FromHello(const SessionId& session, const v1::Hello& hello);

// Any later message of a session whose worker has `toolchain_digest`. InvalidArgument: it has no
// meaning; say so and go on.
absl::StatusOr<Event> FromWorker(const SessionId& session, const std::string& toolchain_digest,
                                 const v1::WorkerMessage& message);

// Messages to workers.
v1::CoordinatorMessage ToProto(const SendWelcome& command);
v1::CoordinatorMessage ToProto(const SendRefused& command);
v1::CoordinatorMessage ToProto(const SendLease& command);
v1::CoordinatorMessage ToProto(const SendCancelLease& command);
v1::CoordinatorMessage ToProto(const SendDrain& command);
v1::CoordinatorMessage ToProto(const SendResultAck& command);
v1::CoordinatorMessage ToProto(const SendBuildReply& command);

v1::WorkerRecord ToProto(const WorkerView& view);

// The gRPC code of the same name. REQUIRES: not kNone.
absl::Status ToStatus(Refusal refusal, const std::string& message);

}  // namespace pike::coordinator
