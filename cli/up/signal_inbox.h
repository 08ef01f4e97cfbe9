#pragma once

#include <chrono>
#include <vector>

#include "common/base/unique_fd.h"

namespace pike::cli {

// Takes SIGINT, SIGTERM, SIGHUP and SIGCHLD as values instead of interruptions. Made on the main
// thread before any other thread starts; blocks the signals in this thread and those it starts.
class SignalInbox {
 public:
  SignalInbox();

  // Waits until a signal came or `timeout` has passed; returns the signals that came.
  std::vector<int> Wait(std::chrono::milliseconds timeout);

 private:
  UniqueFd fd_;
};

}  // namespace pike::cli
