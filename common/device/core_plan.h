#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace pike::device {

// Which cores of a machine are kept for what is timed.
struct CorePlan {
  // Per device, in order: cores for its judge and runners during operations. Empty lists: none.
  std::vector<std::vector<int>> reserved;
  // For everything else: builds, imports, ourselves. Never empty.
  std::vector<int> others;
};

// Two to four cores per device, never more than half of `cores` (sorted) in all: below that none
// are reserved, and so on fewer than four cores.
CorePlan PlanCores(const std::vector<int>& cores, int devices);

// "0-11,14" as cores, and back. InvalidArgument for anything else.
absl::StatusOr<std::vector<int>> ParseCores(absl::string_view text);
std::string CoresText(const std::vector<int>& cores);

// The cores this process may run on, sorted.
std::vector<int> OwnCores();
// Keeps the calling thread, and all that it starts from now on, on these cores.
absl::Status StayOn(const std::vector<int>& cores);

}  // namespace pike::device
