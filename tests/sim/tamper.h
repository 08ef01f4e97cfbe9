#pragma once

#include <vector>

#include "coordinator/core/command.h"
#include "coordinator/core/event.h"
#include "coordinator/core/limits.h"
#include "tests/sim/sim_store.h"

namespace pike::coordinator::sim {

// A planted bug: stands between the core and its shell. Tests plant one to prove that a checker
// sees it; the default is no bug.
class Tamper {
 public:
  virtual ~Tamper() = default;
  virtual void OnLimits(CoreOptions*) {}
  // False: the core never sees the event.
  virtual bool OnEvent(Event*) { return true; }
  virtual void OnCommands(std::vector<Command>*) {}
  virtual void OnCrash(SimStore*) {}
};

}  // namespace pike::coordinator::sim
