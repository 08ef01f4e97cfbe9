#include "coordinator/rpc/evaluation_record.h"

#include <algorithm>
#include <set>
#include <string>
#include <variant>

#include "common/base/check.h"
#include "common/base/text.h"
#include "coordinator/rpc/convert.h"
#include "pike/store/v1/log.pb.h"

namespace pike::coordinator {
namespace {

// Payloads are bytes that this coordinator made; an empty one is an empty message.
template <typename Message>
Message Parse(const std::string& payload) {
  Message message;
  PIKE_CHECK(message.ParseFromString(payload));
  return message;
}

v1::Verdict ToProto(const WorkerVerdict& decided) {
  auto verdict = Parse<v1::Verdict>(decided.payload);
  verdict.mutable_evidence()->set_worker_id(decided.worker_id.value);
  verdict.mutable_evidence()->set_certificate(decided.certificate);
  return verdict;
}

v1::Verdict ToProto(const CoreVerdict& decided) {
  v1::Verdict verdict;
  verdict.set_kind(pike::coordinator::ToProto(decided.kind));
  verdict.set_reason(EscapeLine(decided.reason));
  verdict.set_stage(pike::coordinator::ToProto(decided.stage));
  verdict.set_blame(pike::coordinator::ToProto(decided.blame));
  return verdict;
}

// The run stage reports what it used and built late; the compile stage's other builds come first.
void AddCompileBuilds(const v1::Compiled& compiled, v1::Verdict* verdict) {
  std::set<std::string> reported;
  for (const v1::BuildRecord& build : verdict->builds())
    reported.insert(build.key());
  google::protobuf::RepeatedPtrField<v1::BuildRecord> builds;
  for (const v1::BuildRecord& build : compiled.builds()) {
    if (!reported.contains(build.key()))
      *builds.Add() = build;
  }
  builds.MergeFrom(verdict->builds());
  verdict->mutable_builds()->Swap(&builds);
}

v1::StageTimes TimesOf(const EndEvaluation& end) {
  // The times of the result that decided. If the compile stage decided, they are its own.
  auto times = Parse<v1::StageTimes>(end.run_times_payload);
  const auto compile_times = Parse<v1::StageTimes>(end.compile_times_payload);
  times.set_compile_ms(std::max(times.compile_ms(), compile_times.compile_ms()));
  times.set_queued_compile_ms(static_cast<double>(end.queued_compile.count()));
  times.set_queued_run_ms(static_cast<double>(end.queued_run.count()));
  const int64_t total = std::max<int64_t>(0, end.ended_unix_ms - end.submitted_unix_ms);
  times.set_total_ms(static_cast<double>(total));
  return times;
}

}  // namespace

std::string MakePayload(const v1::EvaluationRecord& accepted, const v1::TaskRecord& task) {
  store::v1::EvaluationPayload payload;
  *payload.mutable_evaluation() = accepted;
  *payload.mutable_task() = task;
  return payload.SerializeAsString();
}

v1::EvaluationRecord ToProto(const EvaluationView& view) {
  v1::EvaluationRecord record = Parse<store::v1::EvaluationPayload>(view.payload).evaluation();
  record.set_evaluation_id(ToText(view.evaluation_id));
  record.set_stage(ToProto(view.stage));
  record.set_queue_position(view.queue_position);
  record.set_attempt(view.attempt);
  record.set_submitted_unix_ms(view.submitted_unix_ms);
  return record;
}

v1::EvaluationRecord ToProto(const EndEvaluation& end) {
  v1::EvaluationRecord record = Parse<store::v1::EvaluationPayload>(end.payload).evaluation();
  record.set_evaluation_id(ToText(end.evaluation_id));
  record.set_stage(v1::STAGE_ENDED);
  record.set_attempt(end.attempt);
  record.set_submitted_unix_ms(end.submitted_unix_ms);
  record.set_ended_unix_ms(end.ended_unix_ms);
  v1::Verdict* verdict = record.mutable_verdict();
  *verdict = std::visit([](const auto& decided) { return ToProto(decided); }, end.verdict);
  verdict->mutable_evidence()->set_attempt(end.attempt);
  for (const std::string& line : end.earlier_attempts)
    verdict->mutable_evidence()->add_earlier_attempts(EscapeLine(line));
  if (verdict->kind() != v1::VERDICT_KIND_CANCELLED)
    AddCompileBuilds(Parse<store::v1::BuildsPayload>(end.builds_payload).compiled(), verdict);
  *record.mutable_times() = TimesOf(end);
  return record;
}

}  // namespace pike::coordinator
