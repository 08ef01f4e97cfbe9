#include "coordinator/core/placement_policy.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pike::coordinator {
namespace {

template <typename Fits>
const WorkerEntry* Pick(const Workers& workers, const WorkerId& avoid, const Fits& fits) {
  const WorkerEntry* best = nullptr;
  const auto rank = [&](const WorkerEntry& worker) {
    return std::pair(worker.facts.worker_id != avoid, worker.free_slots());
  };
  for (const auto& [id, worker] : workers) {
    if (worker.free_slots() > 0 && (best == nullptr || rank(worker) > rank(*best)) &&
        fits(worker.facts))
      best = &worker;
  }
  return best;
}

void Count(const WorkerEntry& worker, Service* service) {
  service->is_served |= worker.is_taking_work();
  service->draining += worker.is_connected() && !worker.is_taking_work() ? 1 : 0;
  service->until = std::max(service->until, worker.served_until);
}

}  // namespace

bool CanCompileFor(const WorkerFacts& worker, const std::string& runtime_digest) {
  return worker.kind == WorkerKind::kCompile && worker.can_build &&
         worker.runtime_digest == runtime_digest;
}

bool CanRun(const WorkerFacts& worker, const Demand& demand) {
  return worker.kind == WorkerKind::kGpu &&
         (demand.gpu_class.empty() || demand.gpu_class == worker.gpu_class) &&
         (demand.toolchain_digest.empty() || demand.toolchain_digest == worker.toolchain_digest ||
          demand.toolchain_digest == worker.runtime_digest);
}

bool CanRun(const WorkerFacts& worker, const Demand& demand, const BuildTarget& target) {
  return CanRun(worker, demand) && worker.runtime_digest == target.runtime_digest &&
         worker.arch == target.arch;
}

std::vector<BuildTarget> CompileTargets(const Workers& workers, const Demand& demand) {
  std::map<BuildTarget, uint32_t> live;  // with free slots
  std::map<BuildTarget, uint32_t> known;
  for (const auto& [id, worker] : workers) {
    if (!CanRun(worker.facts, demand))
      continue;
    const BuildTarget target{worker.facts.runtime_digest, worker.facts.arch};
    known.emplace(target, 0);
    if (worker.is_taking_work())
      live[target] += worker.free_slots();
  }
  const std::map<BuildTarget, uint32_t>& chosen = live.empty() ? known : live;
  std::vector<std::pair<BuildTarget, uint32_t>> ranked(chosen.begin(), chosen.end());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<BuildTarget> targets;
  for (auto& [target, free_slots] : ranked)
    targets.push_back(std::move(target));
  return targets;
}

Service CompileService(const Workers& workers, const Demand& demand) {
  const std::vector<BuildTarget> targets = CompileTargets(workers, demand);
  Service service;
  service.has_target = !targets.empty();
  for (const auto& [id, worker] : workers) {
    if (std::any_of(targets.begin(), targets.end(), [&w = worker](const BuildTarget& target) {
          return CanCompileFor(w.facts, target.runtime_digest);
        }))
      Count(worker, &service);
  }
  return service;
}

Service RunService(const Workers& workers, const Demand& demand, const BuildTarget& target) {
  Service service;
  for (const auto& [id, worker] : workers) {
    if (CanRun(worker.facts, demand, target))
      Count(worker, &service);
  }
  return service;
}

const WorkerEntry* PickCompileWorker(const Workers& workers, const std::string& runtime_digest,
                                     const WorkerId& avoid) {
  return Pick(workers, avoid,
              [&](const WorkerFacts& worker) { return CanCompileFor(worker, runtime_digest); });
}

const WorkerEntry* PickRunWorker(const Workers& workers, const Demand& demand,
                                 const BuildTarget& target, const WorkerId& avoid) {
  return Pick(workers, avoid,
              [&](const WorkerFacts& worker) { return CanRun(worker, demand, target); });
}

}  // namespace pike::coordinator
