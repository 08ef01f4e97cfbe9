#pragma once

#include <string>

#include <absl/status/statusor.h>
#include <google/protobuf/message.h>

#include "pike/v1/evaluation.pb.h"

namespace pike::cli {

// Everything known about one evaluation, for people: verdict, reason, measurement, errors per
// output, builds, times, ends of the outputs. All text is escaped.
std::string RenderRecord(const v1::EvaluationRecord& record);

// The proto3 JSON mapping on one line, without a newline. Internal if the message holds bytes that
// are not UTF-8.
absl::StatusOr<std::string> ToJsonLine(const google::protobuf::Message& message);

}  // namespace pike::cli
