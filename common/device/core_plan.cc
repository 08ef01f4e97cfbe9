#include "common/device/core_plan.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "common/base/errno_status.h"

namespace pike::device {
namespace {

constexpr size_t kMachineMin = 4;
constexpr size_t kPerDeviceMin = 2;
constexpr size_t kPerDeviceMax = 4;

}  // namespace

CorePlan PlanCores(const std::vector<int>& cores, int devices) {
  CorePlan plan;
  const auto count = static_cast<size_t>(std::max(devices, 0));
  plan.reserved.resize(count);
  plan.others = cores;
  if (count == 0 || cores.size() < kMachineMin)
    return plan;
  const size_t each = std::min(kPerDeviceMax, cores.size() / 2 / count);
  if (each < kPerDeviceMin)
    return plan;
  // From the end: interrupts and other people's programs like the first cores.
  for (std::vector<int>& reserved : plan.reserved) {
    reserved.assign(plan.others.end() - static_cast<std::ptrdiff_t>(each), plan.others.end());
    plan.others.resize(plan.others.size() - each);
  }
  return plan;
}

absl::StatusOr<std::vector<int>> ParseCores(absl::string_view text) {
  std::vector<int> cores;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last < first || last >= CPU_SETSIZE)
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is no list of cores like 0-11,14"));
    for (int core = first; core <= last; ++core)
      cores.push_back(core);
  }
  return cores;
}

std::string CoresText(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1)
      ++end;
    absl::StrAppend(&text, text.empty() ? "" : ",", cores[i]);
    if (end - i > 1)
      absl::StrAppend(&text, "-", cores[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> OwnCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0)
    return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set))
      cores.push_back(core);
  }
  return cores;
}

absl::Status StayOn(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    CPU_SET(static_cast<size_t>(core), &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0)
    return ErrnoStatus(errno, "choose cores");
  return absl::OkStatus();
}

}  // namespace pike::device
