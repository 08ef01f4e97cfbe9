#include "cli/up/restart_policy.h"

#include <algorithm>

namespace pike::cli {

std::optional<std::chrono::milliseconds> RestartPolicy::OnDeath(std::chrono::milliseconds lived) {
  if (lived >= limits_.young_age) {
    young_deaths_ = 0;
    return std::chrono::milliseconds(0);
  }
  young_deaths_++;
  if (young_deaths_ >= limits_.young_deaths_max)
    return std::nullopt;
  auto pause = limits_.pause_min;
  for (int i = 1; i < young_deaths_ && pause < limits_.pause_max; i++)
    pause *= 2;
  return std::min(pause, limits_.pause_max);
}

}  // namespace pike::cli
