#pragma once

#include <chrono>
#include <memory>
#include <stop_token>

namespace pike::service {

// Turns SIGTERM and SIGINT into a stop request; a second signal ends the process at once with
// status 1. SIGPIPE is ignored. At most one instance per process, made in main before other
// threads. Threads: every member may be called from any thread.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  bool is_requested() const { return source_.stop_requested(); }
  // The same as a first signal, for a process that ends for a reason of its own.
  void Request() { source_.request_stop(); }
  // Returns whether a stop was requested before `deadline`.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline) const;
  void Wait() const;

 private:
  class Watcher;
  std::stop_source source_;
  std::unique_ptr<Watcher> watcher_;
};

}  // namespace pike::service
