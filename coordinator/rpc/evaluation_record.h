#pragma once

#include <string>

#include "coordinator/core/command.h"
#include "coordinator/core/core.h"
#include "pike/v1/evaluation.pb.h"
#include "pike/v1/task.pb.h"

namespace pike::coordinator {

// The core's payload of a new evaluation. `accepted` has everything that is known at admission.
std::string MakePayload(const v1::EvaluationRecord& accepted, const v1::TaskRecord& task);

// An evaluation that has not ended, as people see it.
v1::EvaluationRecord ToProto(const EvaluationView& view);

// An ended evaluation with its verdict, all builds of both stages and complete times.
v1::EvaluationRecord ToProto(const EndEvaluation& end);

}  // namespace pike::coordinator
