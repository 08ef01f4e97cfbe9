// What an evaluation knows about its task beforehand, and what it asks of precision.

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>

#include "gpu_worker/core/floor.h"
#include "gpu_worker/supervisor/evaluation.h"
#include "gpu_worker/supervisor/json_frame.h"
#include "gpu_worker/supervisor/task_report.h"

namespace pike::gpu {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCheckTimeMax{3'000};
constexpr milliseconds kCheckGrace{60'000};
constexpr uint64_t kCheckBytesMin = uint64_t{256} << 20;
constexpr uint64_t kCheckBytesMax = uint64_t{16} << 30;
constexpr uint64_t kCheckPartOfFree = 4;
// A check begins no call that takes longer than its whole time but the first ones.
constexpr int kCheckCallsMax = 6;
constexpr size_t kChecksMax = 8;

}  // namespace

void Evaluation::CheckTask() {
  TaskFacts& facts = bench_->facts;
  if (!facts.has_device_frames)
    return;
  const std::string key = ToleranceKey(request_.policy);
  auto found = facts.checks.find(key);
  if (found == facts.checks.end()) {
    const std::optional<nlohmann::json> answer = AskForCheck();
    if (!answer)
      return;
    if (TextOf(*answer, "type") != "task_checked") {
      SeeTaskFailed(*answer);
      return;
    }
    if (facts.checks.size() >= kChecksMax)
      facts.checks.clear();
    found = facts.checks.emplace(key, CheckedTaskOf(*answer)).first;
  }
  const CheckedTask& task = found->second;
  report_.task_report = task.report;
  precision_bounds_ = FindPrecisionBounds(task.precision, request_.policy.precision_slack());
  floor_ns_ = FindFloorNs(task.needed, facts.device_bytes_per_s);
  if (request_.policy.precision().empty())
    return;
  least_precision_ = FindLeastPrecision(precision_bounds_, request_.policy.precision());
  if (!least_precision_) {
    report_.task_report->add_not_checked(
        absl::StrCat("precision ", request_.policy.precision(),
                     " of the policy: the reference's own errors are not known, so only the "
                     "tolerances were asked for"));
  }
}

std::optional<nlohmann::json> Evaluation::AskForCheck() {
  const v1::Policy& policy = request_.policy;
  const uint64_t free_bytes =
      context_.node->is_cuda()
          ? bench_->facts.device_memory_free_bytes
          : static_cast<uint64_t>(context_.node->options().judge_memory_bytes_max);
  nlohmann::json request = TolerancesOf(policy);
  request["type"] = "check_task";
  request["needed_bytes"] = bench_->facts.device_bytes_per_s > 0;
  request["ms_max"] = kCheckTimeMax.count();
  request["bytes_max"] = std::clamp(free_bytes / kCheckPartOfFree, kCheckBytesMin, kCheckBytesMax);
  return Ask(request, {},
             milliseconds(policy.load_timeout_ms()) + milliseconds(policy.first_call_timeout_ms()) +
                 kCheckCallsMax * milliseconds(policy.call_timeout_ms()) + kCheckGrace);
}

nlohmann::json Evaluation::BeginRequest() const {
  const v1::Policy& policy = request_.policy;
  nlohmann::json request = TolerancesOf(policy);
  request["type"] = "begin";
  request["first_call_timeout_ms"] = policy.first_call_timeout_ms();
  request["call_timeout_ms"] = policy.call_timeout_ms();
  nlohmann::json classes = nlohmann::json::array();
  for (const PrecisionError& bound : precision_bounds_)
    classes.push_back({{"name", bound.name}, {"error_max", bound.error}});
  request["precisions"] = std::move(classes);
  if (least_precision_) {
    request["precision"] = least_precision_->name;
    request["precision_error_max"] = least_precision_->error;
  }
  return request;
}

}  // namespace pike::gpu
