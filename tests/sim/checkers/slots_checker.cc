#include <cstdint>
#include <memory>
#include <string>

#include "tests/sim/checker.h"

namespace pike::coordinator::sim {
namespace {

// A device slot is never over-committed: no worker ever has more work than slots.
class SlotsChecker : public Checker {
 public:
  void OnTaskStarted(const std::string& worker, uint32_t running, uint32_t slots) override {
    Require(running <= slots, "slots: " + worker + " has " + std::to_string(running) +
                                  " tasks in " + std::to_string(slots) + " slots");
  }
};

}  // namespace

std::unique_ptr<Checker> NewSlotsChecker() {
  return std::make_unique<SlotsChecker>();
}

}  // namespace pike::coordinator::sim
