#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <absl/strings/string_view.h>

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace pike::compile_worker {

// This worker's time series. Thread-safe. `registry` must outlive it.
class WorkerMetrics {
 public:
  explicit WorkerMetrics(prometheus::Registry* registry);
  ~WorkerMetrics();

  void ObserveBuild(absl::string_view outcome, double seconds);
  void CountAnswer(absl::string_view source);
  void ObserveCompileStage(double seconds);
  void SetSlots(size_t slots);
  void AddBusySlots(int change);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace pike::compile_worker
