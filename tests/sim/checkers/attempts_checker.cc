#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "coordinator/core/types.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// Attempts of one stage count from one and never exceed the limit; neither do those of a late
// build. One that follows a failure begins no sooner than it may, unless the coordinator restarted.
class AttemptsChecker : public Checker {
 public:
  explicit AttemptsChecker(const CoreOptions& limits) : limits_(limits) {}

  void OnRecord(const Record& record) override {
    if (const auto* failed = std::get_if<AttemptFailed>(&record))
      may_begin_[failed->evaluation_id] =
          failed->at_unix_ms + RetryDelay(limits_, failed->lease.attempt).count();
    if (const auto* withdrawn = std::get_if<VerdictWithdrawn>(&record)) {
      may_begin_.erase(withdrawn->evaluation_id);
      attempts_.erase({withdrawn->evaluation_id, LeaseKind::kCompile});
      attempts_.erase({withdrawn->evaluation_id, LeaseKind::kRun});
    }
    const auto* granted = std::get_if<LeaseGranted>(&record);
    if (granted == nullptr)
      return;
    const auto may_begin = may_begin_.find(granted->evaluation_id);
    Require(may_begin == may_begin_.end() || granted->granted_unix_ms >= may_begin->second,
            "attempts: too soon after a failure for " + ToText(granted->evaluation_id));
    may_begin_.erase(granted->evaluation_id);
    uint32_t& attempts = attempts_[{granted->evaluation_id, granted->kind}];
    ++attempts;
    Require(granted->lease.attempt == attempts,
            "attempts: wrong number for " + ToText(granted->evaluation_id));
    Require(attempts <= limits_.attempts_max,
            "attempts: over the limit for " + ToText(granted->evaluation_id));
  }

  void OnEffect(const Command& command) override {
    if (const auto* lease = std::get_if<SendLease>(&command))
      Require(lease->lease.attempt >= 1 && lease->lease.attempt <= limits_.attempts_max,
              "attempts: lease with attempt " + std::to_string(lease->lease.attempt));
  }

  void OnRestart(const Core&, const Rows&) override { may_begin_.clear(); }

 private:
  const CoreOptions limits_;
  std::map<EvaluationId, int64_t> may_begin_;  // unix ms
  std::map<std::pair<EvaluationId, LeaseKind>, uint32_t> attempts_;
};

}  // namespace

std::unique_ptr<Checker> NewAttemptsChecker(const CoreOptions& limits) {
  return std::make_unique<AttemptsChecker>(limits);
}

}  // namespace pike::coordinator::sim
