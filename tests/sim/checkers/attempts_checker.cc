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
// build.
class AttemptsChecker : public Checker {
 public:
  explicit AttemptsChecker(uint32_t attempts_max) : attempts_max_(attempts_max) {}

  void OnRecord(const Record& record) override {
    const auto* granted = std::get_if<LeaseGranted>(&record);
    if (granted == nullptr)
      return;
    uint32_t& attempts = attempts_[{granted->evaluation_id, granted->kind}];
    ++attempts;
    Require(granted->lease.attempt == attempts,
            "attempts: wrong number for " + ToText(granted->evaluation_id));
    Require(attempts <= attempts_max_,
            "attempts: over the limit for " + ToText(granted->evaluation_id));
  }

  void OnEffect(const Command& command) override {
    if (const auto* lease = std::get_if<SendLease>(&command))
      Require(lease->lease.attempt >= 1 && lease->lease.attempt <= attempts_max_,
              "attempts: lease with attempt " + std::to_string(lease->lease.attempt));
  }

 private:
  const uint32_t attempts_max_;
  std::map<std::pair<EvaluationId, LeaseKind>, uint32_t> attempts_;
};

}  // namespace

std::unique_ptr<Checker> NewAttemptsChecker(uint32_t attempts_max) {
  return std::make_unique<AttemptsChecker>(attempts_max);
}

}  // namespace pike::coordinator::sim
