#include "gpu_worker/server/device_units.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "gpu_worker/supervisor/owner_lock.h"

namespace pike::gpu {

v1::Device ToProto(const device::Device& device) {
  v1::Device proto;
  proto.set_device_id(device.id);
  proto.set_gpu_class(device.gpu_class);
  proto.set_arch(device.arch);
  proto.set_memory_bytes(device.memory_bytes);
  return proto;
}

absl::StatusOr<std::unique_ptr<DeviceUnits>> DeviceUnits::Create(
    const std::vector<device::Device>& devices, const CommonOptions& common,
    sandbox::SandboxHost* host) {
  const NodeOptions& node = common.node;
  std::unique_ptr<DeviceUnits> units(new DeviceUnits(devices.size()));
  for (size_t i = 0; i < devices.size(); ++i) {
    const device::Device& device = devices[i];
    Unit unit;
    unit.device = device;
    // Workers may share the CPU; its lock file keeps their operations apart.
    if (device.id != "cpu") {
      ASSIGN_OR_RETURN(unit.owner, TakeOwnership(node.runtime_dir, device.id));
    }
    NodeOptions options = node;
    options.device = device;
    if (i < common.reserved_cores.size())
      options.reserved_cores = common.reserved_cores[i];
    if (common.on_frozen)
      options.on_frozen = [on_frozen = common.on_frozen, id = device.id](double seconds) {
        on_frozen(id, seconds);
      };
    options.runners_ready = std::max<size_t>(1, node.runners_ready / devices.size());
    ASSIGN_OR_RETURN(unit.node, Node::Create(std::move(options), host));
    units->units_.push_back(std::move(unit));
  }
  return units;
}

absl::Status DeviceUnits::Supervise(const SupervisorOptions& options, build::Broker* broker) {
  for (Unit& unit : units_) {
    SupervisorOptions own = options;
    own.device = ToProto(unit.device);
    ASSIGN_OR_RETURN(unit.supervisor, Supervisor::Create(std::move(own), unit.node.get(), broker));
  }
  return absl::OkStatus();
}

DeviceUnits::Seat DeviceUnits::Take(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(&mutex_);
    stopped_.NotifyAll();
  });
  MutexLock lock(&mutex_);
  for (;;) {
    for (size_t i = 0; i < units_.size(); ++i)
      loads_[i].quarantined_until = units_[i].supervisor->quarantined_until();
    const MonoTime now = MonoNow();
    const MonoTime healthy_from = HealthyFrom(loads_);
    if (healthy_from <= now || stop.stop_requested()) {
      const size_t index = PickDevice(loads_, now);
      ++loads_[index].evaluations;
      return Seat(this, index);
    }
    stopped_.WaitUntil(&mutex_, healthy_from);
  }
}

void DeviceUnits::Return(size_t index) {
  MutexLock lock(&mutex_);
  --loads_[index].evaluations;
}

void DeviceUnits::CloseIdle(MonoTime now) {
  for (const Unit& unit : units_)
    unit.supervisor->CloseIdle(now);
}

}  // namespace pike::gpu
