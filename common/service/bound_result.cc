#include "common/service/bound_result.h"

namespace pike::service {
namespace {

void DropOutputs(google::protobuf::RepeatedPtrField<v1::BuildRecord>* builds) {
  for (v1::BuildRecord& build : *builds) {
    if (!build.has_error())
      continue;
    build.mutable_error()->clear_stdout_tail();
    build.mutable_error()->clear_stderr_tail();
  }
}

}  // namespace

void BoundResult(v1::LeaseResult* result) {
  if (result->ByteSizeLong() <= kResultBytesMax)
    return;
  if (result->has_compiled())
    DropOutputs(result->mutable_compiled()->mutable_builds());
  if (result->has_verdict()) {
    DropOutputs(result->mutable_verdict()->mutable_builds());
    result->mutable_verdict()->mutable_evidence()->clear_stdout_tail();
    result->mutable_verdict()->mutable_evidence()->clear_stderr_tail();
  }
  if (result->ByteSizeLong() <= kResultBytesMax)
    return;
  v1::InfraFailure* failure = result->mutable_infra_failure();  // drops the outcome it had
  failure->set_reason("the result is too large to be reported");
  failure->set_is_retryable(false);
  failure->set_blame(v1::BLAME_INFRASTRUCTURE);
}

}  // namespace pike::service
