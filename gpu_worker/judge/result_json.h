#pragma once

#include <string>
#include <string_view>

#include "gpu_worker/judge/evaluation.h"

namespace pike::gpu {

// A frame of PROTOCOL.md as JSON text. Bytes that are not UTF-8 pass through unchanged: whoever
// decodes the text replaces them.
std::string ResultToJson(std::string_view op, const OperationResult& result,
                         const Evaluation& evaluation, double elapsed_ms);
std::string TaskFailureToJson(const TaskFailure& failure);

// What a task looks like once it is open.
struct TaskSummary {
  HostValue input;
  HostValue output;
  double reference_ms = 0;
};
std::string TaskSummaryToJson(const TaskSummary& summary);

}  // namespace pike::gpu
