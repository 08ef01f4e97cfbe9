#include "gpu_worker/supervisor/runner_link.h"

#include <chrono>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"
#include "common/build/build_frame.h"
#include "gpu_worker/supervisor/json_frame.h"

namespace pike::gpu {
namespace {

constexpr char kCandidateFile[] = "candidate.py";
constexpr char kTaskFile[] = "task.py";
// A living runner takes a frame at once; what is sent fits into the socket's buffer or nearly so.
constexpr std::chrono::seconds kRunnerSendTimeout{5};
// A frame that has begun to arrive is read in pieces of this, so that a sender that stalls holds
// nobody up.
constexpr std::chrono::milliseconds kReadTimeout{5};

Observation LoadFailure(const nlohmann::json& frame) {
  Observation seen;
  seen.event = Event::kLoadFailed;
  seen.phase = Phase::kLoad;
  seen.load_where = TextOf(frame, "where");
  seen.is_memory_exception = TextOf(frame, "kind") == "memory";
  seen.error_type = TextOf(frame, "error_type");
  seen.text = TextOf(frame, "text");
  return seen;
}

}  // namespace

ProcessFacts FactsOf(const sandbox::Exit& exit) {
  ProcessFacts facts;
  if (!exit.is_killed) {
    if (exit.signal != 0)
      facts.signal = exit.signal;
    else
      facts.exit_status = exit.status;
  }
  facts.memory_limit_hit = exit.memory_limit_hit;
  facts.memory_peak_bytes = static_cast<uint64_t>(exit.memory_peak_bytes.value_or(0));
  return facts;
}

RunnerLink::RunnerLink(Side side, Node* node, sandbox::WarmSandbox warm)
    : side_(side),
      node_(node),
      warm_(std::move(warm)),
      member_(node->gate(), warm_.sandbox.get()) {}

RunnerLink::~RunnerLink() {
  End(MonoNow());
  node_->Forget(*warm_.sandbox);
}

absl::Status RunnerLink::Load(const LoadOrder& order, const UniqueFd& call_channel) {
  RETURN_IF_ERROR(node_->HandIn(*warm_.sandbox, kCandidateFile, order.source));
  RETURN_IF_ERROR(node_->HandIn(*warm_.sandbox, kTaskFile, order.task_source));
  const nlohmann::json frame = {{"type", "load"},
                                {"mode", "construct"},
                                {"path", absl::StrCat(kInsideWorkDir, "/", kCandidateFile)},
                                {"source_path", absl::StrCat(kInsideInputDir, "/", kCandidateFile)},
                                {"entries", order.entries},
                                {"task_path", absl::StrCat(kInsideInputDir, "/", kTaskFile)},
                                {"weight_seed", order.weight_seed}};
  return SendFrame(&warm_.channel, frame, {call_channel.get()}, MonoNow() + kRunnerSendTimeout);
}

RunnerNews RunnerLink::Read() {
  absl::StatusOr<sandbox::Frame> frame = warm_.channel.Receive(MonoNow() + kReadTimeout);
  if (absl::IsDeadlineExceeded(frame.status()))
    return std::monostate();
  if (frame.ok()) {
    const absl::StatusOr<nlohmann::json> parsed = ParseFrame(frame->bytes);
    const std::string type = parsed.ok() ? TextOf(*parsed, "type") : "";
    if (type == "loaded")
      return RunnerLoaded();
    if (type == "failed")
      return RunnerLoadFailed{LoadFailure(*parsed)};
    if (type == "build")
      return RunnerWantsBuild{build::BuildFrameId(*parsed), build::BuildRequestFromFrame(*parsed)};
  }
  is_open_ = false;
  return RunnerGone();
}

void RunnerLink::Reply(const nlohmann::json& frame, const std::vector<int>& fds) {
  if (is_open_ && !SendFrame(&warm_.channel, frame, fds, MonoNow() + kRunnerSendTimeout).ok())
    is_open_ = false;
}

const sandbox::Exit& RunnerLink::End(MonoTime deadline) {
  if (!exit_) {
    is_open_ = false;
    const QuietGate::Teardown teardown(member_.gate(), member_.party());
    exit_ = warm_.sandbox->WaitOrKill(deadline);
  }
  return *exit_;
}

ProcessFacts RunnerLink::Facts() const {
  return exit_ ? FactsOf(*exit_) : ProcessFacts();
}

}  // namespace pike::gpu
