#pragma once

#include <memory>
#include <string>

#include "common/build/build_outcome.h"
#include "common/build/toolchain.h"
#include "pike/v1/types.pb.h"

namespace pike::build {

// The contract's form of what the broker says. Untrusted text is escaped and capped on the way out.

v1::BuildRecord ToBuildRecord(const BuildOutcome& outcome, const std::string& extension_name,
                              bool is_late);
// Takes the output of some away, so that those of one result together stay small.
void BoundOutputs(google::protobuf::RepeatedPtrField<v1::BuildRecord>* records);
v1::BuildError ToBuildError(const BuildFailure& failure);
// Reads a failure back; null if `record` has none. The kind is told from `tool` and `exit_status`:
// "broker" is a refusal, and a killed tool a timeout.
std::shared_ptr<const BuildFailure> FailureOfRecord(const v1::BuildRecord& record);
v1::OutputTail ToOutputTail(const CappedOutput& output);
v1::Toolchain ToProto(const Toolchain& toolchain);

}  // namespace pike::build
