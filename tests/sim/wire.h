#pragma once

#include <optional>

#include "coordinator/core/command.h"
#include "coordinator/core/event.h"
#include "coordinator/core/types.h"
#include "pike/v1/worker.pb.h"

namespace pike::coordinator::sim {

// The messages of the Worker stream, between the real core and the real worker session. Candidates
// are named by `candidate_sha256`; builds, verdicts and failures are one string each.

// Absent if the message is not one that a coordinator takes.
std::optional<Event> EventOf(const v1::WorkerMessage& message, const SessionId& session);

v1::CoordinatorMessage MessageOf(const SendWelcome& command);
v1::CoordinatorMessage MessageOf(const SendRefused& command);
v1::CoordinatorMessage MessageOf(const SendLease& command);
v1::CoordinatorMessage MessageOf(const SendCancelLease& command);
v1::CoordinatorMessage MessageOf(const SendDrain& command);
v1::CoordinatorMessage MessageOf(const SendResultAck& command);
v1::CoordinatorMessage MessageOf(const SendBuildReply& command);

v1::Hello HelloOf(const WorkerFacts& facts);

}  // namespace pike::coordinator::sim
