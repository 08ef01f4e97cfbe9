#include "coordinator/core/admission_policy.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/string_view.h>

namespace pike::coordinator {
namespace {

// Digests are long; twelve characters name one.
absl::string_view Short(const std::string& digest) {
  return absl::string_view(digest).substr(0, 12);
}

bool IsConfigured(const std::string& gpu_class, const CoreOptions& options) {
  const auto& classes = options.gpu_classes;
  return gpu_class.empty() ? !classes.empty()
                           : std::find(classes.begin(), classes.end(), gpu_class) != classes.end();
}

std::string WhyNoGpuWorker(const Demand& demand, const Workers& workers) {
  std::set<std::string> classes;
  bool has_class = false;
  for (const auto& [id, worker] : workers) {
    if (worker.facts.kind != WorkerKind::kGpu)
      continue;
    classes.insert(worker.facts.gpu_class);
    has_class |= CanRun(worker.facts, {demand.gpu_class, ""});
  }
  if (has_class)
    return absl::StrCat("no GPU worker of the last ten minutes has toolchain ",
                        Short(demand.toolchain_digest));
  if (classes.empty())
    return "no GPU worker was connected in the last ten minutes";
  return absl::StrCat("no GPU worker of the last ten minutes has class '", demand.gpu_class,
                      "'; there is: ", absl::StrJoin(classes, ", "));
}

}  // namespace

std::optional<std::string> WhyImpossible(const Demand& demand, const Workers& workers,
                                         const CoreOptions& options) {
  const bool is_configured = IsConfigured(demand.gpu_class, options);
  const std::vector<BuildTarget> targets = CompileTargets(workers, demand);
  if (targets.empty()) {
    // A configured class may have any toolchain while none of its workers is known.
    const bool is_class_known = !CompileTargets(workers, {demand.gpu_class, ""}).empty();
    if (is_configured && !is_class_known)
      return std::nullopt;
    return WhyNoGpuWorker(demand, workers);
  }
  if (is_configured)
    return std::nullopt;
  for (const auto& [id, worker] : workers) {
    for (const BuildTarget& target : targets) {
      if (CanCompileFor(worker.facts, target.runtime_digest))
        return std::nullopt;
    }
  }
  return absl::StrCat("no compile worker of the last ten minutes has the GPU workers' runtime ",
                      Short(targets.front().runtime_digest));
}

std::optional<std::string> WhyFull(const Principal& principal, const EvaluationTable& evaluations,
                                   const CoreOptions& options) {
  if (evaluations.compile_stage_count() >= options.queue_compile_max)
    return absl::StrCat("the compile queue is full (", options.queue_compile_max, "); retry later");
  if (evaluations.CountOf(principal) >= options.evaluations_per_principal_max)
    return absl::StrCat("you have ", options.evaluations_per_principal_max,
                        " evaluations that have not ended; retry later");
  return std::nullopt;
}

}  // namespace pike::coordinator
