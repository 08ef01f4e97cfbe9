#pragma once

#include <string>
#include <string_view>

#include "gpu_worker/judge/evaluation.h"

namespace pike::gpu {

// A frame of PROTOCOL.md as JSON text. Bytes that are not UTF-8 pass through unchanged: whoever
// decodes the text replaces them.
// `evaluation` is null for an operation outside one.
std::string ResultToJson(std::string_view op, const OperationResult& result,
                         const Evaluation* evaluation, double elapsed_ms);
std::string TaskFailureToJson(const TaskFailure& failure);

// What a task looks like once it is open.
struct TaskSummary {
  TaskValue input;
  TaskValue output;
  double reference_ms = 0;
  DeviceFacts device;
};
std::string TaskSummaryToJson(const TaskSummary& summary);

std::string PreparedToJson(const TaskSource& task, double elapsed_ms);
std::string SettledToJson(bool is_quiet, const SentinelLook& look, double elapsed_ms);

}  // namespace pike::gpu
