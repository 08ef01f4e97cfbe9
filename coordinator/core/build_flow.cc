#include "coordinator/core/build_flow.h"

#include <algorithm>
#include <string>
#include <variant>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "coordinator/core/placement_policy.h"

namespace pike::coordinator {

void BuildFlow::Request(const BuildRequested& event, const WorkerEntry& worker) {
  const BuildKey key{event.session, event.build_request_id};
  if (state_.builds.Contains(key))
    return;
  const auto refuse = [&](std::string why) {
    state_.Emit(SendBuildReply{event.session, event.build_request_id, "", std::move(why)});
  };
  const Lease* lease = state_.leases.Find(event.lease_id);
  if (lease == nullptr || lease->kind != LeaseKind::kRun ||
      lease->worker_id != worker.facts.worker_id)
    return refuse("the lease that asks for the build is not live");
  if (state_.builds.CountOf(event.session) >= state_.options.builds_per_worker_max)
    return refuse(absl::StrCat("more than ", state_.options.builds_per_worker_max,
                               " builds in progress for this worker"));
  const std::string& runtime = worker.facts.runtime_digest;
  const Workers& workers = state_.workers.all();
  if (std::none_of(workers.begin(), workers.end(),
                   [&](const auto& w) { return CanCompileFor(w.second.facts, runtime); }))
    return refuse("no compile worker of the last ten minutes has this worker's runtime");

  Build build;
  build.key = key;
  build.run_lease = event.lease_id;
  build.target = {runtime, event.arch};
  build.request_sha256 = event.request_sha256;
  build.timeout = event.timeout;
  state_.builds.Add(
      build, std::min(lease->deadline, state_.now + event.timeout + state_.options.lease_slack));
}

void BuildFlow::TakeOutcome(const Lease& lease, const LeaseResultReceived& event) {
  if (const auto* done = std::get_if<BuildFinished>(&event.outcome))
    return Reply(lease.build_number, done->payload, "");
  const auto* failed = std::get_if<InfraFailed>(&event.outcome);
  if (failed != nullptr && !failed->is_retryable)
    return Reply(lease.build_number, "", state_.CutReason(failed->reason));
  if (failed != nullptr)
    return FailAttempt(lease, RetryReason::kInfraFailure, failed->reason);
  FailAttempt(lease, RetryReason::kMalformedResult, "the outcome does not fit the lease");
}

void BuildFlow::FailAttempt(const Lease& lease, RetryReason reason, absl::string_view text) {
  Build* build = state_.builds.Find(lease.build_number);
  PIKE_CHECK(build != nullptr && build->lease == lease.ref.lease_id);
  build->last_failure =
      state_.CutReason(absl::StrCat("build attempt ", build->attempts, " at ",
                                    lease.worker_id.value, ": ", Name(reason), ": ", text));
  state_.builds.SetLease(build->number, std::nullopt);
  if (build->attempts >= state_.options.attempts_max)
    return Reply(build->number, "", build->last_failure);
  const Milliseconds delay = RetryDelay(state_.options, build->attempts);
  if (delay.count() > 0)
    state_.builds.HoldBack(build->number, state_.now + delay);
  state_.Emit(CountRetry{reason});
}

void BuildFlow::EndUnserved(uint64_t number) {
  const Build* build = state_.builds.Find(number);
  PIKE_CHECK(build != nullptr);
  RevokeLease(number);
  Reply(number, "",
        absl::StrCat("no compile worker finished the build in time",
                     build->last_failure.empty() ? "" : "; ", build->last_failure));
}

void BuildFlow::DropRun(LeaseId run_lease) {
  for (const uint64_t number : state_.builds.OfRunLease(run_lease)) {
    RevokeLease(number);
    Reply(number, "", "the run that asked for the build is over");
  }
}

void BuildFlow::DropSession(const SessionId& session) {
  for (const uint64_t number : state_.builds.OfSession(session)) {
    RevokeLease(number);
    state_.builds.Remove(number);
  }
}

void BuildFlow::RevokeLease(uint64_t number) {
  const Build* build = state_.builds.Find(number);
  if (build->lease.has_value())
    state_.RevokeLease(*build->lease);
}

void BuildFlow::Reply(uint64_t number, const std::string& build_payload,
                      const std::string& infra_error) {
  const Build* build = state_.builds.Find(number);
  PIKE_CHECK(build != nullptr);
  state_.Emit(
      SendBuildReply{build->key.session, build->key.build_request_id, build_payload, infra_error});
  state_.builds.Remove(number);
}

}  // namespace pike::coordinator
