#include "gpu_worker/supervisor/confirmation.h"

#include <set>
#include <string>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace pike::gpu {
namespace {

v1::StageTimes Sum(const v1::StageTimes& first, const v1::StageTimes& second) {
  v1::StageTimes sum = first;
  sum.set_compile_ms(first.compile_ms() + second.compile_ms());
  sum.set_prepare_ms(first.prepare_ms() + second.prepare_ms());
  sum.set_verify_ms(first.verify_ms() + second.verify_ms());
  sum.set_measure_ms(first.measure_ms() + second.measure_ms());
  sum.set_lock_wait_ms(first.lock_wait_ms() + second.lock_wait_ms());
  sum.set_frozen_ms(first.frozen_ms() + second.frozen_ms());
  sum.mutable_locks()->MergeFrom(second.locks());
  sum.mutable_intervals()->MergeFrom(second.intervals());
  return sum;
}

// What the first one built the second one found.
void AddBuilds(const v1::Verdict& first, v1::Verdict* verdict) {
  google::protobuf::RepeatedPtrField<v1::BuildRecord> builds = first.builds();
  std::set<std::string> known;
  for (const v1::BuildRecord& build : builds)
    known.insert(build.key());
  for (const v1::BuildRecord& build : verdict->builds()) {
    if (!known.contains(build.key()))
      *builds.Add() = build;
  }
  verdict->mutable_builds()->Swap(&builds);
}

}  // namespace

bool NeedsConfirmation(const v1::LeaseResult& result, double best_speedup) {
  const v1::Measurement& measurement = result.verdict().measurement();
  // Without a gain that both clocks vouch for it is nothing to be the best at: half of all copies
  // of the reference look faster than it by a little.
  return result.verdict().kind() == v1::VERDICT_KIND_VALID && measurement.speedup_certified() > 1 &&
         measurement.speedup() > best_speedup;
}

v1::LeaseResult Confirmed(const v1::LeaseResult& first, v1::LeaseResult second) {
  *second.mutable_times() = Sum(first.times(), second.times());
  const std::string what =
      absl::StrFormat("valid at %.2fx, a would-be best", first.verdict().measurement().speedup());
  if (!second.has_verdict()) {
    second.mutable_infra_failure()->set_reason(absl::StrCat(
        second.infra_failure().reason(), " (when it was measured again; ", what, " before)"));
    return second;
  }
  v1::Verdict* verdict = second.mutable_verdict();
  AddBuilds(first.verdict(), verdict);
  *verdict->mutable_unconfirmed() = first.verdict().measurement();
  google::protobuf::RepeatedPtrField<std::string> earlier =
      first.verdict().evidence().earlier_attempts();
  if (verdict->kind() != v1::VERDICT_KIND_VALID)
    earlier.Add(absl::StrCat("on the worker: ", what, "; not so when it was measured again"));
  earlier.MergeFrom(verdict->evidence().earlier_attempts());
  verdict->mutable_evidence()->mutable_earlier_attempts()->Swap(&earlier);
  return second;
}

}  // namespace pike::gpu
