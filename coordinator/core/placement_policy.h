#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/types.h"
#include "coordinator/core/worker_table.h"

// Which worker could, and which should, do a piece of work. Stateless; ties go to the smaller id.
namespace pike::coordinator {

using Workers = std::map<WorkerId, WorkerEntry>;

// Whether a worker of these facts can do it at all, free or not.
bool CanCompileFor(const WorkerFacts& worker, const std::string& runtime_digest);
bool CanRun(const WorkerFacts& worker, const Demand& demand);
bool CanRun(const WorkerFacts& worker, const Demand& demand, const BuildTarget& target);

// What an evaluation may be compiled for: the targets of the GPU workers that take work and meet
// `demand`, most free slots first; if there are none, of all known workers that meet it.
std::vector<BuildTarget> CompileTargets(const Workers& workers, const Demand& demand);

// Who could take a piece of work that waits, busy or not.
struct Service {
  bool is_served = false;  // a connected worker takes such work
  uint32_t draining = 0;   // connected workers that could, but take no more
  bool has_target = true;  // false: no GPU worker is known to compile for
  MonoTime until;          // when the last of the others that are still known stopped
};
Service CompileService(const Workers& workers, const Demand& demand);
Service RunService(const Workers& workers, const Demand& demand, const BuildTarget& target);

// A worker with a free slot, most free slots first; `avoid` only if there is no other. Null if
// none.
const WorkerEntry* PickCompileWorker(const Workers& workers, const std::string& runtime_digest,
                                     const WorkerId& avoid);
const WorkerEntry* PickRunWorker(const Workers& workers, const Demand& demand,
                                 const BuildTarget& target, const WorkerId& avoid);

}  // namespace pike::coordinator
