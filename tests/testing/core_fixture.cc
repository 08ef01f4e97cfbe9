#include "tests/testing/core_fixture.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {
namespace {

std::vector<Record> SnapshotOf(const CoreOptions& options, const std::vector<Record>& records) {
  Core core(options);
  for (const Record& record : records)
    core.Apply(record);
  return core.Snapshot();
}

}  // namespace

CoreOptions PromptOptions() {
  CoreOptions options;
  options.retry_delay = Milliseconds(0);
  return options;
}

CoreFixture::CoreFixture(const CoreOptions& core_options)
    : options(core_options), core(std::make_unique<Core>(core_options)) {
  Do(CoordinatorStarted{wall_unix_ms});
}

void CoreFixture::Do(const Event& event) {
  said = core->Handle(event, now);
  for (const Command& command : said) {
    if (const auto* append = std::get_if<AppendRecord>(&command))
      log.push_back(append->record);
    if (const auto* end = std::get_if<EndEvaluation>(&command))
      ends.push_back(*end);
    if (const auto* lease = std::get_if<SendLease>(&command))
      leases_given[lease->evaluation_id.value_or(EvaluationId())] = lease->lease;
  }
  CheckReplay();
}

void CoreFixture::Pass(Milliseconds span) {
  const MonoTime end = now + span;
  std::vector<Command> all;
  for (auto due = core->NextDeadline(); due.has_value() && *due <= end;
       due = core->NextDeadline()) {
    if (*due > now)
      Advance(std::chrono::ceil<Milliseconds>(*due - now));
    Do(TimePassed{wall_unix_ms});
    all.insert(all.end(), said.begin(), said.end());
  }
  if (now < end)
    Advance(std::chrono::ceil<Milliseconds>(end - now));
  said = all;
}

void CoreFixture::Restart(Milliseconds down) {
  Advance(down);
  now = MonoTime(std::chrono::minutes(5));  // another boot: the steady clock starts anew
  core = std::make_unique<Core>(options);
  for (const Record& record : log)
    core->Apply(record);
  Do(CoordinatorStarted{wall_unix_ms});
}

void CoreFixture::ConnectCompile(const std::string& id, uint32_t slots,
                                 const std::vector<LeaseRef>& held) {
  Connect(CompileFacts(id, slots), held);
}

void CoreFixture::ConnectGpu(const std::string& id, uint32_t slots,
                             const std::vector<LeaseRef>& held) {
  Connect(GpuFacts(id, slots), held);
}

void CoreFixture::Connect(const WorkerFacts& facts, const std::vector<LeaseRef>& held) {
  ++connections_[facts.worker_id.value];
  Do(WorkerConnected{Session(facts.worker_id.value), facts, held});
}

void CoreFixture::Disconnect(const std::string& id) {
  Do(WorkerDisconnected{Session(id)});
}

void CoreFixture::Beat(const std::string& id, const std::vector<LeaseRef>& held) {
  Do(HeartbeatReceived{Session(id), held});
}

SessionId CoreFixture::Session(const std::string& id) const {
  return {id + "/" + std::to_string(connections_.at(id))};
}

EvaluationSubmitted CoreFixture::Request(const std::string& principal, const std::string& key) {
  EvaluationSubmitted request;
  request.request = {next_request_++};
  request.principal = {principal};
  request.client_key = key;
  request.request_digest = "digest";
  request.payload = "payload";
  return request;
}

EvaluationId CoreFixture::Submit() {
  return SubmitFor("ann");
}

EvaluationId CoreFixture::SubmitFor(const std::string& principal) {
  Do(Request(principal));
  const AnswerSubmit answer = Only<AnswerSubmit>();
  if (answer.outcome != SubmitOutcome::kAccepted)
    Fail("not accepted: " + answer.message, 0);
  return answer.evaluation_id;
}

void CoreFixture::Cancel(EvaluationId id) {
  Do(CancelRequested{{next_request_++}, id});
}

void CoreFixture::Finish(const std::string& worker, const LeaseRef& lease,
                         const LeaseOutcome& outcome) {
  Do(LeaseResultReceived{Session(worker), lease, "times of " + worker, outcome});
}

void CoreFixture::FinishCompile(const std::string& worker, const LeaseRef& lease) {
  Finish(worker, lease, CompileFinished{"builds"});
}

void CoreFixture::FinishRun(const std::string& worker, const LeaseRef& lease, VerdictKind kind) {
  Finish(worker, lease, VerdictReached{kind, "verdict"});
}

void CoreFixture::FailInfra(const std::string& worker, const LeaseRef& lease, bool is_retryable) {
  Finish(worker, lease, InfraFailed{"disk full", is_retryable, Blame::kInfrastructure});
}

Stage CoreFixture::StageOf(EvaluationId id) const {
  const auto view = core->FindEvaluation(id);
  return view.has_value() ? view->stage : Stage::kEnded;
}

std::optional<VerdictKind> CoreFixture::EndOf(EvaluationId id) const {
  for (const EndEvaluation& end : ends) {
    if (end.evaluation_id == id)
      return KindOf(end);
  }
  return std::nullopt;
}

EndEvaluation CoreFixture::FullEndOf(EvaluationId id) const {
  for (const EndEvaluation& end : ends) {
    if (end.evaluation_id == id)
      return end;
  }
  Fail("the evaluation has not ended", 0);
}

void CoreFixture::Fail(const std::string& text, size_t count) {
  throw std::logic_error(text + " (" + std::to_string(count) + ")");
}

void CoreFixture::Advance(Milliseconds span) {
  now += span;
  wall_unix_ms += span.count();
}

void CoreFixture::CheckReplay() const {
  const std::vector<Record> snapshot = core->Snapshot();
  if (SnapshotOf(options, log) != snapshot)
    Fail("the log does not reproduce the state", log.size());
  if (SnapshotOf(options, snapshot) != snapshot)
    Fail("the snapshot does not reproduce the state", snapshot.size());
}

WorkerFacts CompileFacts(const std::string& id, uint32_t slots) {
  WorkerFacts facts;
  facts.worker_id = {id};
  facts.kind = WorkerKind::kCompile;
  facts.slots = slots;
  facts.toolchain_digest = "toolchain-compile";
  facts.runtime_digest = "runtime-1";
  facts.can_build = true;
  return facts;
}

WorkerFacts GpuFacts(const std::string& id, uint32_t slots) {
  WorkerFacts facts;
  facts.worker_id = {id};
  facts.kind = WorkerKind::kGpu;
  facts.slots = slots;
  facts.toolchain_digest = "toolchain-gpu";
  facts.runtime_digest = "runtime-1";
  facts.gpu_class = "cpu";
  facts.arch = "cpu";
  return facts;
}

VerdictKind KindOf(const EndEvaluation& end) {
  return std::visit([](const auto& verdict) { return verdict.kind; }, end.verdict);
}

}  // namespace pike::coordinator
