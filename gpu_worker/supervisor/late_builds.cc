#include "gpu_worker/supervisor/late_builds.h"

#include <utility>

namespace pike::gpu {

LateBuilds::~LateBuilds() {
  stop_.request_stop();
  threads_.clear();  // joins
}

void LateBuilds::Start(Side side, uint64_t frame_id, build::BuildRequest request,
                       build::BuildCall call) {
  call.stop = stop_.get_token();
  threads_.emplace_back(
      [this, side, frame_id, request = std::move(request), call = std::move(call)] {
        FinishedBuild finished{side, frame_id, request.name, broker_->Build(request, call)};
        {
          MutexLock lock(&mutex_);
          finished_.push_back(std::move(finished));
        }
        wake_->Wake();
      });
}

std::vector<FinishedBuild> LateBuilds::TakeFinished() {
  MutexLock lock(&mutex_);
  return std::exchange(finished_, {});
}

}  // namespace pike::gpu
