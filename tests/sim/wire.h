#pragma once

#include <optional>

#include "coordinator/core/command.h"
#include "coordinator/core/event.h"
#include "coordinator/core/types.h"
#include "pike/v1/worker.pb.h"

namespace pike::sim {

// The messages of the Worker stream, between the real core and the real worker session. Candidates
// are named by `candidate_sha256`; builds, verdicts and failures are one string each.

// Absent if the message is not one that a coordinator takes.
std::optional<coordinator::Event> EventOf(const v1::WorkerMessage& message,
                                          const coordinator::SessionId& session);

v1::CoordinatorMessage MessageOf(const coordinator::SendWelcome& command);
v1::CoordinatorMessage MessageOf(const coordinator::SendRefused& command);
v1::CoordinatorMessage MessageOf(const coordinator::SendLease& command);
v1::CoordinatorMessage MessageOf(const coordinator::SendCancelLease& command);
v1::CoordinatorMessage MessageOf(const coordinator::SendDrain& command);
v1::CoordinatorMessage MessageOf(const coordinator::SendResultAck& command);
v1::CoordinatorMessage MessageOf(const coordinator::SendBuildReply& command);

v1::Hello HelloOf(const coordinator::WorkerFacts& facts);

}  // namespace pike::sim
