#pragma once

#include <chrono>
#include <optional>

namespace pike::cli {

// When a dead child is started again. A child that lived for a while is started at once; one that
// keeps dying young waits twice as long each time and is given up on in the end. Pure.
class RestartPolicy {
 public:
  struct Limits {
    // First and longest pause after a young death.
    std::chrono::milliseconds pause_min{500};
    std::chrono::milliseconds pause_max{15'000};
    // A child that lived shorter than this died young.
    std::chrono::milliseconds young_age{20'000};
    // Young deaths in a row before giving up.
    int young_deaths_max = 5;
  };

  explicit RestartPolicy(Limits limits) : limits_(limits) {}
  RestartPolicy() : RestartPolicy(Limits()) {}

  // Pause before the next start; none to give up.
  std::optional<std::chrono::milliseconds> OnDeath(std::chrono::milliseconds lived);

  int young_deaths() const { return young_deaths_; }

 private:
  const Limits limits_;
  int young_deaths_ = 0;
};

}  // namespace pike::cli
