#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <absl/strings/string_view.h>

#include "pike/v1/types.pb.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace pike::gpu {

// This worker's time series. Thread-safe. `registry` must outlive it.
class WorkerMetrics {
 public:
  explicit WorkerMetrics(prometheus::Registry* registry);
  ~WorkerMetrics();

  void ObserveLock(const std::string& device, absl::string_view operation, double wait_s,
                   double held_s);
  void ObserveStages(const v1::StageTimes& times);
  void ObserveBuild(absl::string_view outcome, double seconds);
  // Evaluations stood still for a neighbour's timing.
  void AddFrozen(const std::string& device, double seconds);
  void AddQuarantined(const std::string& device, double seconds);
  void SetSlots(size_t slots);
  void AddBusySlots(int change);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace pike::gpu
