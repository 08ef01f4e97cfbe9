#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "common/base/mutex.h"
#include "common/build/broker.h"
#include "gpu_worker/core/observation.h"
#include "gpu_worker/supervisor/wake_fd.h"

namespace pike::gpu {

// A build that a runner asked for, done.
struct FinishedBuild {
  Side side = Side::kCandidate;
  uint64_t frame_id = 0;
  std::string name;
  absl::StatusOr<build::BuildOutcome> outcome;
};

// Builds for the runners of one evaluation, each on a thread of its own so that the evaluation goes
// on watching everything else. Owned by one thread; the destructor stops what still runs.
class LateBuilds {
 public:
  // `wake` is woken for each finished build; both must outlive this.
  LateBuilds(build::Broker* broker, WakeFd* wake) : broker_(broker), wake_(wake) {}
  ~LateBuilds();
  LateBuilds(const LateBuilds&) = delete;
  LateBuilds& operator=(const LateBuilds&) = delete;

  // REQUIRES: a bound on the caller's side. `call.stop` is set here.
  void Start(Side side, uint64_t frame_id, build::BuildRequest request, build::BuildCall call);
  std::vector<FinishedBuild> TakeFinished();

 private:
  build::Broker* const broker_;
  WakeFd* const wake_;
  std::stop_source stop_;
  Mutex mutex_;
  std::vector<FinishedBuild> finished_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace pike::gpu
