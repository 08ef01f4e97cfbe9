#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/build/build_request.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/warm_pool.h"
#include "gpu_worker/core/observation.h"
#include "gpu_worker/supervisor/node.h"
#include "gpu_worker/supervisor/sandbox_member.h"

namespace pike::gpu {

// What a runner is to load.
struct LoadOrder {
  std::string source;                // of the candidate, or of the task for the reference's runner
  std::vector<std::string> entries;  // class names, tried in order
  std::string task_source;
  uint64_t weight_seed = 0;
};

// One frame of a runner, understood.
struct RunnerLoaded {};
struct RunnerLoadFailed {
  Observation seen;  // without side and process facts
};
struct RunnerGone {};  // end of file, or a frame that is not ours
struct RunnerWantsBuild {
  uint64_t frame_id = 0;
  absl::StatusOr<build::BuildRequest> request;  // an error's message is for the candidate
};
using RunnerNews =
    std::variant<std::monostate, RunnerLoaded, RunnerLoadFailed, RunnerGone, RunnerWantsBuild>;

// The supervisor's end of one runner: a disposable sandbox that loads one file and then serves the
// judge. Everything it says is untrusted. The destructor kills the whole tree.
class RunnerLink {
 public:
  RunnerLink(Side side, Node* node, sandbox::WarmSandbox warm);
  ~RunnerLink();
  RunnerLink(const RunnerLink&) = delete;
  RunnerLink& operator=(const RunnerLink&) = delete;

  // From here on it may use the device as part of `party`. Waits while somebody else times.
  void Join(QuietGate::PartyId party) { member_.Join(party); }
  void KeepOnReservedCores() { node_->KeepOnReserved(warm_.sandbox.get()); }
  void KeepCallerOnOneCore() { node_->KeepCallerOnOneCore(warm_.sandbox.get()); }
  sandbox::Sandbox* sandbox() const { return warm_.sandbox.get(); }

  // Hands the files in and says go; `call_channel` is the runner's end towards the judge.
  absl::Status Load(const LoadOrder& order, const UniqueFd& call_channel);

  // Reads what is there. Call when fd() is readable.
  RunnerNews Read();
  // Answers a RunnerWantsBuild; `fds` are the artifact's. A runner that does not read loses.
  void Reply(const nlohmann::json& frame, const std::vector<int>& fds);

  // To poll; -1 once it is closed.
  int fd() const { return is_open_ ? warm_.channel.fd() : -1; }
  Side side() const { return side_; }

  // Waits up to `deadline` for its own end, then kills. Idempotent. What is returned is how it
  // ended.
  const sandbox::Exit& End(MonoTime deadline);
  // Whether End gave its processes up, which hang in the driver.
  bool is_stuck() const { return exit_ && exit_->is_stuck; }
  // Facts of End.
  ProcessFacts Facts() const;
  sandbox::CapturedOutput Stdout() const { return warm_.sandbox->Stdout(); }
  sandbox::CapturedOutput Stderr() const { return warm_.sandbox->Stderr(); }

 private:
  const Side side_;
  Node* const node_;
  sandbox::WarmSandbox warm_;
  SandboxMember member_;
  bool is_open_ = true;
  std::optional<sandbox::Exit> exit_;
};

// Facts of an ended sandbox in the terms of the verdict.
ProcessFacts FactsOf(const sandbox::Exit& exit);

}  // namespace pike::gpu
