#include "compile_worker/server/candidate_import.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include "common/base/run_on_stop.h"
#include "common/base/status_macros.h"
#include "common/build/build_frame.h"
#include "compile_worker/server/import_sandbox.h"

namespace pike::compile_worker {
namespace {

using nlohmann::json;

constexpr size_t kBuildRequestsMax = 64;  // of one candidate, repetitions included
constexpr std::chrono::seconds kSendTimeout{10};
constexpr size_t kErrorTextBytesMax = 8 << 10;

std::string TextField(const json& frame, const char* name) {
  const auto it = frame.find(name);
  if (it == frame.end() || !it->is_string())
    return "";
  return it->get<std::string>().substr(0, kErrorTextBytesMax);
}

BuildResult ResultOf(const build::BuildOutcome& outcome) {
  if (outcome.failure == nullptr)
    return BuildResult::kBuilt;
  switch (outcome.failure->kind) {
    case build::BuildFailureKind::kCompileError:
    case build::BuildFailureKind::kRefused:
      return BuildResult::kCompileError;
    case build::BuildFailureKind::kTimeout:
      return BuildResult::kTimeout;
    case build::BuildFailureKind::kOutOfMemory:
      return BuildResult::kOutOfMemory;
  }
  return BuildResult::kInfra;
}

ImportReport ReportOf(const json& frame) {
  const std::string where = TextField(frame, "where");
  if (where == "parse")
    return ImportReport::kNotPython;
  if (where == "entry")
    return ImportReport::kNoEntry;
  if (where == "harness")
    return ImportReport::kHarness;
  return ImportReport::kImportError;
}

// One import in progress: owns its sandbox, fills in the observation.
class Import {
 public:
  Import(sandbox::WarmSandbox warm, build::Broker* broker, const ImportJob& job)
      : warm_(std::move(warm)),
        broker_(broker),
        job_(job),
        deadline_(std::min(MonoNow() + job.timeout, job.latest)) {}

  absl::StatusOr<ImportObservation> Run() {
    RETURN_IF_ERROR(PlaceCandidate(*warm_.sandbox, job_.source));
    const json load = {{"type", "load"},
                       {"mode", "import"},
                       {"path", kCandidatePath},
                       {"entries", {"ModelNew", "Model"}}};
    RETURN_IF_ERROR(warm_.channel.Send(load.dump(), {}, MonoNow() + kSendTimeout));
    RETURN_IF_ERROR(ServeUntilReport());
    // After a report nothing of interest happens; without one the end itself is the evidence.
    const bool is_reported = observation_.facts.report != ImportReport::kNone;
    observation_.exit = is_reported ? warm_.sandbox->Kill() : warm_.sandbox->WaitOrKill(deadline_);
    if (job_.stop.stop_requested())
      return absl::CancelledError("the lease was cancelled");
    Observe();
    return std::move(observation_);
  }

  sandbox::Sandbox* sandbox() { return warm_.sandbox.get(); }

 private:
  // Answers build frames until the candidate's process reports, ends, or the deadline passes.
  absl::Status ServeUntilReport() {
    while (true) {
      absl::StatusOr<sandbox::Frame> frame = warm_.channel.Receive(deadline_);
      if (!frame.ok())
        return absl::OkStatus();  // gone, silent or talking nonsense: its end tells
      const json object = json::parse(frame->bytes, nullptr, /*allow_exceptions=*/false);
      if (!object.is_object())
        return absl::OkStatus();
      const std::string type = TextField(object, "type");
      if (type == "build") {
        RETURN_IF_ERROR(Build(object));
        continue;
      }
      if (type == "loaded")
        observation_.facts.report = ImportReport::kLoaded;
      else if (type == "failed")
        observation_.facts.report = ReportOf(object);
      observation_.facts.error_type = TextField(object, "error_type");
      observation_.facts.error_text = TextField(object, "text");
      return absl::OkStatus();
    }
  }

  // Builds, records and replies. Errors: only that the lease was cancelled.
  absl::Status Build(const json& frame) {
    const uint64_t id = build::BuildFrameId(frame);
    if (++requests_ > kBuildRequestsMax)
      return Reply(build::BuildRefusedFrame(id, "too many extension builds"), nullptr);
    const absl::StatusOr<build::BuildRequest> request = build::BuildRequestFromFrame(frame);
    if (!request.ok()) {
      Record(TextField(frame, "name"), RefusedOutcome(request.status()));
      return Reply(build::BuildRefusedFrame(id, std::string(request.status().message())), nullptr);
    }
    build::BuildCall call;
    call.arch = job_.arch;
    call.deadline = deadline_;
    call.build_timeout = job_.build_timeout;
    call.stop = job_.stop;
    const absl::StatusOr<build::BuildOutcome> outcome = broker_->Build(*request, call);
    if (absl::IsCancelled(outcome.status()))
      return outcome.status();
    if (!outcome.ok()) {
      // Past the stage's own deadline the import's end says so; all else is not its fault.
      if (!absl::IsDeadlineExceeded(outcome.status()))
        observation_.facts.builds.push_back(
            {request->name, BuildResult::kInfra, std::string(outcome.status().message()), "", 0});
      return Reply(build::BuildRefusedFrame(id, "the extension could not be built here"), nullptr);
    }
    Record(request->name, *outcome);
    return Reply(build::BuildReplyFrame(id, *outcome), outcome->artifact.get());
  }

  static build::BuildOutcome RefusedOutcome(const absl::Status& status) {
    auto failure = std::make_shared<build::BuildFailure>();
    failure->kind = build::BuildFailureKind::kRefused;
    failure->tool = "broker";
    failure->first_error = std::string(status.message());
    build::BuildOutcome outcome;
    outcome.failure = std::move(failure);
    return outcome;
  }

  void Record(const std::string& name, const build::BuildOutcome& outcome) {
    const bool is_known =
        std::any_of(observation_.builds.begin(), observation_.builds.end(),
                    [&outcome](const NamedBuild& other) {
                      return !outcome.key.empty() && other.outcome.key == outcome.key;
                    });
    if (is_known)
      return;
    observation_.builds.push_back({name, outcome});
    BuildFact fact;
    fact.name = name;
    fact.result = ResultOf(outcome);
    if (outcome.failure != nullptr) {
      fact.first_error = outcome.failure->first_error;
      fact.file = outcome.failure->file;
      fact.line = outcome.failure->line;
    }
    observation_.facts.builds.push_back(std::move(fact));
  }

  absl::Status Reply(const json& reply, const build::Artifact* artifact) {
    std::vector<int> fds;
    UniqueFd sealed;
    if (artifact != nullptr) {
      ASSIGN_OR_RETURN(sealed, artifact->OpenSealed());
      fds.push_back(sealed.get());
    }
    // A peer that does not read is found by the next Receive.
    warm_.channel.Send(reply.dump(), fds, std::min(deadline_, MonoNow() + kSendTimeout))
        .IgnoreError();
    return absl::OkStatus();
  }

  void Observe() {
    ImportFacts& facts = observation_.facts;
    facts.is_timed_out = observation_.exit.is_timed_out;
    facts.is_memory_limit_hit = observation_.exit.memory_limit_hit;
    facts.exit_status = observation_.exit.status;
    facts.signal = observation_.exit.signal;
    observation_.stdout_text = warm_.sandbox->Stdout();
    observation_.stderr_text = warm_.sandbox->Stderr();
  }

  sandbox::WarmSandbox warm_;
  build::Broker* const broker_;
  const ImportJob& job_;
  const MonoTime deadline_;
  size_t requests_ = 0;
  ImportObservation observation_;
};

}  // namespace

absl::StatusOr<ImportObservation> ImportCandidate(sandbox::WarmPool* pool, build::Broker* broker,
                                                  const ImportJob& job) {
  ASSIGN_OR_RETURN(sandbox::WarmSandbox warm, pool->Take(job.latest));
  Import import(std::move(warm), broker, job);
  const RunOnStop kill(job.stop, [&import] { import.sandbox()->Kill(); });
  return import.Run();
}

}  // namespace pike::compile_worker
