// How an evaluation shares its device: coming and going, the lock, quiet timing, evidence.

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/device/xid.h"
#include "common/sandbox/process_tree.h"
#include "gpu_worker/core/device_fault.h"
#include "gpu_worker/supervisor/device_use.h"
#include "gpu_worker/supervisor/evaluation.h"
#include "gpu_worker/supervisor/json_frame.h"

namespace pike::gpu {
namespace {

using std::chrono::milliseconds;

// For neighbours to stand still: they do so within milliseconds, but for one that is deep in the
// driver.
constexpr std::chrono::seconds kFreezeTimeout{10};
// For builds and imports of other processes, where no cores are kept for what is timed.
constexpr std::chrono::seconds kHostQuietTimeout{2};
// Inputs made ahead.
constexpr milliseconds kPrepareTimeout{10'000};
constexpr milliseconds kPrepareGrace{30'000};
constexpr uint64_t kStockBytesMin = uint64_t{64} << 20;
constexpr uint64_t kStockBytesMax = uint64_t{8} << 30;
constexpr uint64_t kStockPartOfFree = 8;
constexpr uint32_t kTimedCallsMin = 10;
// For the driver to take a process that has ended off its list.
constexpr milliseconds kForeignGrace{2'000};
constexpr milliseconds kForeignStep{50};

double MsOf(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

uint64_t NsOf(MonoTime time) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

std::set<pid_t> OurProcesses() {
  const std::vector<pid_t> tree = sandbox::ProcessTree(::getpid());
  return {tree.begin(), tree.end()};
}

// `ours`: before the reading was taken. One of ours that has ended since is no stranger.
DeviceUse UseOf(const device::GpuReading& reading, std::set<pid_t> ours) {
  ours.merge(OurProcesses());
  return FindDeviceUse(reading, ours);
}

void FillState(const device::GpuReading& reading, v1::GpuState* state) {
  if (reading.sm_clock_mhz)
    state->set_sm_clock_mhz(*reading.sm_clock_mhz);
  if (reading.memory_clock_mhz)
    state->set_memory_clock_mhz(*reading.memory_clock_mhz);
  if (reading.throttle_reasons)
    state->set_throttle_reasons(*reading.throttle_reasons);
  if (reading.temperature_c)
    state->set_temperature_c(*reading.temperature_c);
  if (reading.power_w)
    state->set_power_w(*reading.power_w);
  if (reading.ecc_uncorrected)
    state->set_ecc_uncorrected(*reading.ecc_uncorrected);
  if (reading.memory_used_bytes)
    state->set_memory_used_bytes(*reading.memory_used_bytes);
  if (reading.memory_total_bytes)
    state->set_memory_total_bytes(*reading.memory_total_bytes);
}

}  // namespace

void Evaluation::EnterDevice() {
  if (context_.monitor != nullptr && context_.node->is_cuda())
    xids_before_ = context_.monitor->Xids(context_.device_id).total();
  absl::StatusOr<std::unique_ptr<QuietGate::Party>> party =
      context_.node->gate()->Enter(context_.is_alone, stop_);
  if (party.ok()) {
    party_ = *std::move(party);
    return;
  }
  Observation seen;
  seen.event = Event::kCancelled;
  See(std::move(seen));
}

void Evaluation::ChargeFrozen() {
  if (!party_)
    return;
  const std::chrono::nanoseconds frozen = party_->FrozenFor(MonoNow());
  const std::chrono::nanoseconds more = frozen - std::exchange(frozen_charged_, frozen);
  for (auto* deadline : {&candidate_load_, &reference_load_, &ask_}) {
    if (*deadline)
      (*deadline)->Extend(more);
  }
  if (operation_)
    operation_->watchdog.Extend(more);
}

bool Evaluation::TakeLock(Operation* operation) {
  const MonoTime start = MonoNow();
  absl::StatusOr<DeviceLock::Hold> hold = context_.lock->Acquire(stop_);
  operation->waited += MonoNow() - start;
  if (hold.ok()) {
    operation->hold.emplace(*std::move(hold));
    operation->since = operation->hold->since();
    return operation->phase != Phase::kMeasure || BeginTiming(operation);
  }
  Observation seen;
  seen.event = absl::IsCancelled(hold.status()) ? Event::kCancelled : Event::kEnvironment;
  seen.phase = operation->phase;
  seen.text = std::string(hold.status().message());
  See(std::move(seen));
  return false;
}

bool Evaluation::BeginTiming(Operation* operation) {
  if (context_.node->options().reserved_cores.empty()) {
    operation->no_starts.emplace(context_.node);
    operation->no_neighbours.emplace(context_.node->options().runtime_dir,
                                     MonoNow() + kHostQuietTimeout);
  }
  absl::StatusOr<QuietGate::Timing> timing = party_->BeginTiming(MonoNow() + kFreezeTimeout, stop_);
  if (timing.ok()) {
    operation->timing.emplace(*std::move(timing));
    operation->since = MonoNow();
    return true;
  }
  operation->no_neighbours.reset();
  operation->no_starts.reset();
  operation->hold.reset();
  if (absl::IsCancelled(timing.status())) {
    Observation seen;
    seen.event = Event::kCancelled;
    seen.phase = operation->phase;
    See(std::move(seen));
  } else {
    SeeEnvironment(operation->phase, timing.status());
  }
  return false;
}

void Evaluation::DropLock(Operation* operation) {
  if (!operation->hold)
    return;
  RecordInterval(operation->name, operation->since);
  operation->timing.reset();
  operation->no_neighbours.reset();
  operation->no_starts.reset();
  operation->held += MonoNow() - operation->hold->since();
  operation->hold.reset();
}

void Evaluation::OnTurn(Side side) {
  RunnerLink* const next = LinkOf(side);
  RunnerLink* const other = LinkOf(side == Side::kReference ? Side::kCandidate : Side::kReference);
  // One that has ended stands still; the judge sees its end when it is its turn.
  const bool is_there = !other->sandbox()->Wait(MonoNow());
  absl::Status status = is_there ? other->sandbox()->StartFreezing() : absl::OkStatus();
  next->sandbox()->Thaw();
  if (is_there && status.ok())
    status = other->sandbox()->WaitFrozen(MonoNow() + kFreezeTimeout);
  if (!status.ok())
    SeeEnvironment(phase(), status);
  else if (!bench_->Send({{"type", "resume"}}).ok())
    SeeJudge(Event::kProcessGone);
}

void Evaluation::EndTurns() {
  for (RunnerLink* link : {candidate_.get(), reference_.get()})
    link->sandbox()->Thaw();
}

void Evaluation::RecordLock(const Operation& operation) {
  v1::LockTime* time = report_.times.add_locks();
  time->set_operation(operation.name);
  time->set_wait_ms(MsOf(operation.waited));
  time->set_held_ms(MsOf(operation.held));
  report_.times.set_lock_wait_ms(report_.times.lock_wait_ms() + time->wait_ms());
  if (context_.on_lock)
    context_.on_lock(context_.device_id, operation.name, time->wait_ms() / 1e3,
                     time->held_ms() / 1e3);
}

void Evaluation::RecordInterval(const char* operation, MonoTime start) {
  for (const Window& part : WithoutHoles({start, MonoNow()}, party_->FrozenWindows())) {
    v1::DeviceInterval* interval = report_.times.add_intervals();
    interval->set_operation(operation);
    interval->set_device_id(context_.device_id);
    interval->set_start_ns(NsOf(part.start));
    interval->set_end_ns(NsOf(part.end));
  }
}

void Evaluation::PrepareInputs(uint32_t calls) {
  const TaskFacts& facts = bench_->facts;
  if (!facts.has_device_frames)
    return;
  // Timing ends once the reference's calls sum to the limit, so more would only take memory.
  if (facts.reference_ms > 0) {
    const double fit = request_.policy.timed_ms_max() / facts.reference_ms;
    const uint32_t enough = request_.policy.warmup_calls() + kTimedCallsMin +
                            static_cast<uint32_t>(std::min(fit * 2, 1e6));
    calls = std::min(calls, enough);
  }
  // Without a GPU they lie in the judge's own memory.
  const uint64_t free_bytes =
      context_.node->is_cuda()
          ? facts.device_memory_free_bytes
          : static_cast<uint64_t>(context_.node->options().judge_memory_bytes_max);
  const uint64_t bytes_max =
      std::clamp(free_bytes / kStockPartOfFree, kStockBytesMin, kStockBytesMax);
  // The judge looks at its limit between two inputs; each takes no longer than a call.
  const milliseconds timeout =
      kPrepareTimeout + kPrepareGrace + milliseconds(request_.policy.call_timeout_ms());
  const std::optional<nlohmann::json> answer = Ask({{"type", "prepare"},
                                                    {"calls", calls},
                                                    {"bytes_max", bytes_max},
                                                    {"ms_max", kPrepareTimeout.count()}},
                                                   {}, timeout);
  if (answer && TextOf(*answer, "type") == "task_failed")
    SeeTaskFailed(*answer);
}

std::optional<device::GpuReading> Evaluation::ReadGpu() {
  absl::StatusOr<device::GpuReading> reading = context_.monitor->Read(context_.device_id);
  if (reading.ok())
    return *std::move(reading);
  Observation seen;
  seen.event = Event::kDeviceFault;
  seen.phase = phase();
  seen.text = std::string(reading.status().message());
  See(std::move(seen));
  return std::nullopt;
}

void Evaluation::LookForDeviceFault() {
  if (context_.monitor == nullptr || !context_.node->is_cuda())
    return;
  std::string fault;
  for (const uint64_t xid : context_.monitor->Xids(context_.device_id).Since(xids_before_)) {
    report_.evidence.add_xids(xid);
    if (device::IsDeviceXid(xid))
      fault = absl::StrCat("the driver reports Xid ", xid);
  }
  if (!CanBeDeviceFault(*seen_))
    return;
  if (fault.empty())
    fault = std::string(context_.monitor->Read(context_.device_id).status().message());
  if (fault.empty())
    return;
  Observation seen;
  seen.event = Event::kDeviceFault;
  seen.phase = seen_->phase;
  seen.text = std::move(fault);
  seen_ = std::move(seen);
}

uint64_t Evaluation::LookAtGpu(bool is_before) {
  if (context_.monitor == nullptr || !context_.node->is_cuda())
    return 0;
  std::set<pid_t> ours = OurProcesses();
  std::optional<device::GpuReading> reading = ReadGpu();
  if (!reading)
    return 0;
  DeviceUse use = UseOf(*reading, std::move(ours));
  const MonoTime grace_end = MonoNow() + kForeignGrace;
  while (!use.foreign.empty() && !seen_ && MonoNow() < grace_end) {
    Pump(MonoNow() + kForeignStep);
    ours = OurProcesses();
    reading = ReadGpu();
    if (!reading)
      return 0;
    use = UseOf(*reading, std::move(ours));
  }
  v1::Evidence& evidence = report_.evidence;
  v1::GpuState* const state =
      is_before ? evidence.mutable_gpu_before() : evidence.mutable_gpu_after();
  FillState(*reading, state);
  if (reading->processes)
    evidence.set_foreign_processes(ForeignText(use));
  if (!use.foreign.empty()) {
    SeeEnvironment(phase(),
                   absl::UnavailableError(absl::StrCat(
                       "the GPU was not ours alone while it timed: process ", PidsText(use.foreign),
                       " uses it, too; end it, or leave this GPU out of "
                       "--gpus")));
  }
  const v1::GpuState& before = evidence.gpu_before();
  if (!is_before && before.has_ecc_uncorrected() && state->has_ecc_uncorrected() &&
      state->ecc_uncorrected() > before.ecc_uncorrected()) {
    Observation seen;
    seen.event = Event::kDeviceFault;
    seen.phase = phase();
    seen.text = absl::StrCat("uncorrectable ECC errors while it timed: ", before.ecc_uncorrected(),
                             " before, ", state->ecc_uncorrected(), " after");
    See(std::move(seen));
  }
  return use.memory_floor_bytes;
}

}  // namespace pike::gpu
