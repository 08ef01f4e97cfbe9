#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// Never two live leases for one piece of work, no lease id twice, and no lease without a record.
class LeaseChecker : public Checker {
 public:
  void OnRecord(const Record& record) override {
    if (const auto* granted = std::get_if<LeaseGranted>(&record)) {
      Require(live_.emplace(granted->evaluation_id, granted->lease).second,
              "lease: a second live lease for " + ToText(granted->evaluation_id));
      Require(ids_.insert(granted->lease.lease_id).second,
              "lease: id used twice: " + ToText(granted->lease.lease_id));
    }
    if (const auto* failed = std::get_if<AttemptFailed>(&record))
      Close(failed->evaluation_id, failed->lease);
    if (const auto* compiled = std::get_if<CompileStageDone>(&record))
      Close(compiled->evaluation_id, compiled->lease);
    if (const auto* ended = std::get_if<EvaluationEnded>(&record))
      live_.erase(ended->evaluation_id);
  }

  void OnEffect(const Command& command) override {
    const auto* lease = std::get_if<SendLease>(&command);
    if (lease == nullptr)
      return;
    if (!lease->evaluation_id.has_value()) {
      Require(ids_.insert(lease->lease.lease_id).second,
              "lease: id used twice: " + ToText(lease->lease.lease_id));
      return;
    }
    // A lease may be given and taken back in one batch; it is never sent without having been given.
    Require(ids_.count(lease->lease.lease_id) == 1, "lease: sent without a record");
    Require(sent_.insert(lease->lease.lease_id).second, "lease: sent twice");
  }

 private:
  void Close(EvaluationId id, const LeaseRef& lease) {
    const auto found = live_.find(id);
    Require(found != live_.end() && found->second == lease,
            "lease: ended by a lease that is not live: " + ToText(id));
    live_.erase(found);
  }

  std::map<EvaluationId, LeaseRef> live_;
  std::set<LeaseId> ids_;
  std::set<LeaseId> sent_;
};

}  // namespace

std::unique_ptr<Checker> NewLeaseChecker() {
  return std::make_unique<LeaseChecker>();
}

}  // namespace pike::coordinator::sim
