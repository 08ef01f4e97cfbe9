#pragma once

#include <string>

#include <absl/strings/string_view.h>

#include "coordinator/core/event.h"
#include "coordinator/core/state.h"

namespace pike::coordinator {

// Late builds: a GPU worker without a compiler asks, a compile worker builds, the asker gets one
// reply unless it is gone before.
class BuildFlow {
 public:
  explicit BuildFlow(State* state) : state_(*state) {}

  // `worker` is the one of the event's session.
  void Request(const BuildRequested& event, const WorkerEntry& worker);
  // A worker answered a live build lease, which is finished already.
  void TakeOutcome(const Lease& lease, const LeaseResultReceived& event);
  // A build lease came to nothing, and is finished or revoked already.
  void FailAttempt(const Lease& lease, RetryReason reason, absl::string_view text);
  // The build's time is over.
  void EndUnserved(uint64_t number);

  // The run that asked is over: its builds stop. The worker is told, for another run of it may have
  // joined such a build.
  void DropRun(LeaseId run_lease);
  // The session is over: its builds stop, and nobody can be told.
  void DropSession(const SessionId& session);

 private:
  void RevokeLease(uint64_t number);
  void Reply(uint64_t number, const std::string& build_payload, const std::string& infra_error);

  State& state_;
};

}  // namespace pike::coordinator
