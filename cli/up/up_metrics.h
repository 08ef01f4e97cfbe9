#pragma once

#include <memory>
#include <string>

namespace prometheus {
class Registry;
}

namespace pike::cli {

// What `pike up` itself can tell: whether its children run, and how often it had to start them
// again. Thread-safe. The registry must outlive it.
class UpMetrics {
 public:
  explicit UpMetrics(prometheus::Registry* registry);
  ~UpMetrics();

  // `process` is the program's name, for example "pike-coordinator".
  void SetRunning(const std::string& process, bool is_running);
  void CountRestart(const std::string& process);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace pike::cli
