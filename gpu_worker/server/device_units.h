#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/build/broker.h"
#include "common/device/device_choice.h"
#include "common/device/gpu.h"
#include "common/sandbox/sandbox_host.h"
#include "gpu_worker/core/device_placement.h"
#include "gpu_worker/supervisor/node.h"
#include "gpu_worker/supervisor/supervisor.h"
#include "pike/v1/worker.pb.h"

namespace pike::gpu {

v1::Device ToProto(const device::Device& device);

// The devices of this worker, each with its own lock, judges, warm sandboxes and reserved cores.
// Threads: Take and CloseIdle from any thread once Supervise has returned.
class DeviceUnits {
 public:
  // A device for one evaluation, until destruction.
  class Seat {
   public:
    Seat(DeviceUnits* units, size_t index) : units_(units), index_(index) {}
    Seat(Seat&& other) noexcept
        : units_(std::exchange(other.units_, nullptr)), index_(other.index_) {}
    Seat& operator=(Seat&&) = delete;
    ~Seat() {
      if (units_ != nullptr)
        units_->Return(index_);
    }
    Supervisor* supervisor() const { return units_->units_[index_].supervisor.get(); }

   private:
    DeviceUnits* units_;
    size_t index_;
  };

  // What the devices have in common.
  struct CommonOptions {
    NodeOptions node;  // its `runners_ready` is for all of them together
    std::vector<std::vector<int>> reserved_cores;  // by device
    std::function<void(const std::string& device, double seconds)> on_frozen;
  };

  // Takes the ownership of each device and starts its warm sandboxes.
  static absl::StatusOr<std::unique_ptr<DeviceUnits>> Create(
      const std::vector<device::Device>& devices, const CommonOptions& common,
      sandbox::SandboxHost* host);
  // Makes the supervisors. `options.device` is set here.
  absl::Status Supervise(const SupervisorOptions& options, build::Broker* broker);

  // Of the healthy device that has least to do. While all are quarantined it waits for the first of
  // them, or until `stop` is requested: what is refused at once would use up its attempts.
  Seat Take(const std::stop_token& stop);
  void CloseIdle(MonoTime now);

 private:
  // In dependency order.
  struct Unit {
    device::Device device;
    UniqueFd owner;
    std::unique_ptr<Node> node;
    std::unique_ptr<Supervisor> supervisor;
  };

  explicit DeviceUnits(size_t count) : loads_(count) {}
  void Return(size_t index);

  std::vector<Unit> units_;
  Mutex mutex_;
  CondVar stopped_;
  std::vector<DeviceLoad> loads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pike::gpu
