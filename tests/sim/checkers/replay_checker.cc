#include <memory>
#include <vector>

#include "coordinator/core/core.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

std::vector<Record> Replayed(const CoreOptions& limits, const std::vector<Record>& records) {
  Core core(limits);
  for (const Record& record : records)
    core.Apply(record);
  return core.Snapshot();
}

// The state is what its snapshot reproduces. That the log reproduces it too is seen at each
// restart.
class ReplayChecker : public Checker {
 public:
  explicit ReplayChecker(const CoreOptions& limits) : limits_(limits) {}

  void OnStep(const Core& core) override {
    if (++steps_ % 64 == 0)
      Check(core);
  }
  void OnRestart(const Core& core, const Rows&) override { Check(core); }

 private:
  void Check(const Core& core) const {
    const std::vector<Record> snapshot = core.Snapshot();
    Require(Replayed(limits_, snapshot) == snapshot, "replay: a snapshot gives another state");
  }

  const CoreOptions limits_;
  int steps_ = 0;
};

}  // namespace

std::unique_ptr<Checker> NewReplayChecker(const CoreOptions& limits) {
  return std::make_unique<ReplayChecker>(limits);
}

}  // namespace pike::coordinator::sim
