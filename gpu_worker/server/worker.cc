#include "gpu_worker/server/worker.h"

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/build/broker.h"
#include "common/build/build_record.h"
#include "common/build/local_builder.h"
#include "common/build/toolchain.h"
#include "common/device/core_plan.h"
#include "common/device/device_choice.h"
#include "common/device/nvml.h"
#include "common/sandbox/sandbox_host.h"
#include "common/service/artifact_client.h"
#include "common/service/blob_client.h"
#include "common/service/channel.h"
#include "common/service/metrics.h"
#include "common/service/runtime_dir.h"
#include "common/service/service_artifact_store.h"
#include "common/service/worker_client.h"
#include "gpu_worker/server/device_units.h"
#include "gpu_worker/server/lease_slots.h"
#include "gpu_worker/server/native_parts.h"
#include "gpu_worker/server/remote_builder.h"
#include "gpu_worker/server/worker_metrics.h"
#include "gpu_worker/supervisor/core_claim.h"
#include "gpu_worker/supervisor/supervisor.h"

namespace pike::gpu {
namespace {

constexpr char kVersion[] = "0.1.0";
constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr std::chrono::seconds kTickEvery{1};
// For the last results to be acknowledged.
constexpr std::chrono::seconds kFlushTimeout{3};

int64_t Bytes(double gib) {
  return static_cast<int64_t>(gib * kGib);
}

uint64_t MachineBytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

v1::LeaseResult Failure(const absl::Status& status) {
  v1::LeaseResult result;
  result.mutable_infra_failure()->set_reason(status.ToString());
  result.mutable_infra_failure()->set_is_retryable(true);
  result.mutable_infra_failure()->set_blame(v1::BLAME_INFRASTRUCTURE);
  return result;
}

// The parts of a running worker. Members are in dependency order: destruction is shutdown order.
class Worker {
 public:
  static absl::StatusOr<std::unique_ptr<Worker>> Create(const Options& options);
  absl::Status Run(service::StopSignal* stop);

 private:
  explicit Worker(Options options) : options_(std::move(options)) {}

  absl::Status ChooseDevices();
  absl::Status Prepare();
  absl::Status Connect(const std::string& target);
  v1::Hello MakeHello() const;
  v1::LeaseResult RunLease(const v1::Lease& lease, const std::stop_token& stop);
  absl::StatusOr<EvaluationRequest> Fetch(const v1::Lease& lease);

  Options options_;
  // Null without a driver.
  std::unique_ptr<device::GpuMonitor> monitor_;
  std::vector<device::Device> devices_;
  std::vector<std::vector<int>> reserved_cores_;  // by device
  CoreClaim core_claim_;
  const std::string worker_id_ = service::MakeWorkerId("gpu");
  std::string runtime_dir_;
  std::string cache_dir_;
  build::ProbedToolchain toolchain_;
  std::string toolchain_digest_;
  std::unique_ptr<service::Metrics> metrics_server_;
  std::unique_ptr<WorkerMetrics> metrics_;
  std::unique_ptr<sandbox::SandboxHost> host_;
  std::unique_ptr<service::BlobClient> blobs_;
  std::unique_ptr<service::ArtifactClient> index_;
  std::unique_ptr<service::ServiceArtifactStore> store_;
  std::unique_ptr<service::WorkerClient> client_;
  std::unique_ptr<build::Builder> builder_;
  std::unique_ptr<build::Broker> broker_;
  std::unique_ptr<JitCaches> jit_caches_;
  std::unique_ptr<DeviceUnits> units_;
  std::unique_ptr<LeaseSlots> slots_;
};

absl::StatusOr<std::unique_ptr<Worker>> Worker::Create(const Options& options) {
  std::unique_ptr<Worker> worker(new Worker(options));
  RETURN_IF_ERROR(worker->Prepare());
  ASSIGN_OR_RETURN(const std::string target,
                   service::FindService(options.service, options.runtime_dir));
  RETURN_IF_ERROR(worker->Connect(target));
  return worker;
}

absl::Status Worker::ChooseDevices() {
  std::vector<device::GpuInfo> gpus;
  absl::StatusOr<std::unique_ptr<device::GpuMonitor>> monitor = device::OpenNvml();
  if (monitor.ok()) {
    monitor_ = *std::move(monitor);
    ASSIGN_OR_RETURN(gpus, monitor_->List());
  }
  if (toolchain_.toolchain.torch_cuda_version.empty() && options_.devices == "auto" &&
      !gpus.empty()) {
    LogWarning(absl::StrCat("the PyTorch of ", options_.python,
                            " is built without CUDA: evaluating on the CPU"));
    gpus.clear();
  }
  ASSIGN_OR_RETURN(devices_, device::ChooseDevices(options_.devices, gpus));
  for (device::Device& device : devices_) {
    if (device.kind == device::Device::Kind::kCpu)
      device.memory_bytes = MachineBytes();
    else if (toolchain_.toolchain.torch_cuda_version.empty())
      return absl::FailedPreconditionError(
          absl::StrCat("the PyTorch of ", options_.python,
                       " is built without CUDA: install another, or use --devices cpu"));
  }
  FillDefaults(devices_, &options_);
  if (devices_[0].kind == device::Device::Kind::kCpu)
    return absl::OkStatus();
  // Before any thread is made: all that we start stays off the reserved cores by itself.
  const device::CorePlan plan =
      device::PlanCores(device::OwnCores(), static_cast<int>(devices_.size()));
  reserved_cores_ = plan.reserved;
  ASSIGN_OR_RETURN(core_claim_, CoreClaim::Take(runtime_dir_, plan));
  return device::StayOn(plan.others);
}

absl::Status Worker::Prepare() {
  ASSIGN_OR_RETURN(runtime_dir_, service::OpenRuntimeDir(options_.runtime_dir));
  cache_dir_ = options_.cache_dir;
  if (cache_dir_.empty()) {
    ASSIGN_OR_RETURN(const std::string state_dir, service::OpenStateDir(""));
    cache_dir_ = state_dir + "/gpu-worker";
  }
  RETURN_IF_ERROR(service::MakeFolders(cache_dir_, 0700));
  ASSIGN_OR_RETURN(const std::string share_dir, build::FindShareDir());
  ASSIGN_OR_RETURN(toolchain_, build::ProbeToolchain({options_.python, share_dir, cache_dir_}));
  toolchain_digest_ = toolchain_.toolchain.Digest();
  RETURN_IF_ERROR(ChooseDevices());
  ASSIGN_OR_RETURN(
      metrics_server_,
      service::Metrics::Start({"pike-gpu-worker", options_.metrics_address, runtime_dir_}));
  metrics_ = std::make_unique<WorkerMetrics>(&metrics_server_->registry());
  metrics_->SetSlots(options_.slots);
  sandbox::HostOptions host_options;
  host_options.uid_base = options_.uid_base;
  host_options.is_without_cgroups = options_.is_without_cgroups;
  // Making it ends what a dead predecessor left behind, before the first lease.
  ASSIGN_OR_RETURN(host_, sandbox::SandboxHost::Create(host_options));
  if (options_.is_sandbox_required)
    RETURN_IF_ERROR(sandbox::RequireAllLayers(host_->capabilities()));
  LogInfo("building the native parts (a minute the first time)");
  DeviceUnits::CommonOptions common;
  common.reserved_cores = reserved_cores_;
  common.on_frozen = [this](const std::string& device, double seconds) {
    metrics_->AddFrozen(device, seconds);
  };
  NodeOptions& node = common.node;
  node.toolchain = toolchain_;
  node.share_dir = share_dir;
  ASSIGN_OR_RETURN(node.native_dir,
                   BuildNativeParts(options_.python, share_dir, cache_dir_, host_->spawner()));
  node.runtime_dir = runtime_dir_;
  node.runner_memory_bytes_max = Bytes(options_.memory_gib);
  node.judge_memory_bytes_max = Bytes(options_.judge_gib);
  node.threads = options_.threads;
  node.runners_ready = options_.warm;
  node.driver_folder = monitor_ ? monitor_->DriverFolder() : "";
  ASSIGN_OR_RETURN(units_, DeviceUnits::Create(devices_, common, host_.get()));
  return absl::OkStatus();
}

v1::Hello Worker::MakeHello() const {
  v1::Hello hello;
  hello.set_worker_id(worker_id_);
  hello.set_kind(v1::WORKER_KIND_GPU);
  hello.set_host(service::HostName());
  hello.set_slots(static_cast<uint32_t>(options_.slots));
  *hello.mutable_toolchain() = build::ToProto(toolchain_.toolchain);
  for (const device::Device& device : devices_)
    *hello.add_devices() = ToProto(device);
  hello.set_can_build(toolchain_.can_build());
  for (const std::string& name : host_->capabilities().names)
    hello.add_capabilities(name);
  for (const std::string& name : host_->capabilities().missing)
    hello.add_sandbox_missing(name);
  hello.set_version(kVersion);
  return hello;
}

absl::Status Worker::Connect(const std::string& target) {
  const auto channel = service::MakeChannel(target);
  service::BlobClientOptions blob_options;
  blob_options.cache_dir = cache_dir_ + "/blobs";
  blobs_ = std::make_unique<service::BlobClient>(channel, blob_options);
  index_ =
      std::make_unique<service::ArtifactClient>(channel, [this] { return client_->session_id(); });
  store_ = std::make_unique<service::ServiceArtifactStore>(index_.get(), blobs_.get());
  service::SessionOptions session;
  session.hello = MakeHello();
  session.seed = std::hash<std::string>()(worker_id_);
  service::WorkerCallbacks callbacks;
  callbacks.on_lease = [this](v1::Lease lease) { slots_->Start(std::move(lease)); };
  callbacks.on_cancel = [this](const service::LeaseKey& key) { slots_->Cancel(key); };
  client_ =
      std::make_unique<service::WorkerClient>(channel, std::move(session), std::move(callbacks));
  if (toolchain_.can_build()) {
    build::LocalBuilderOptions local;
    local.toolchain = toolchain_;
    local.memory_bytes_max = Bytes(options_.build_memory_gib);
    builder_ = std::make_unique<build::LocalBuilder>(std::move(local), host_.get());
  } else {
    builder_ = std::make_unique<RemoteBuilder>(client_.get(), blobs_.get(),
                                               [this] { return slots_->AnyLease(); });
  }
  build::BrokerOptions broker;
  broker.cache_dir = cache_dir_ + "/artifacts";
  broker.cache_bytes_max = static_cast<uint64_t>(Bytes(options_.cache_gib));
  broker.toolchain_digest = toolchain_digest_;
  broker.slots = options_.slots;
  broker.on_built = [this](absl::string_view outcome, double seconds) {
    metrics_->ObserveBuild(outcome, seconds);
  };
  ASSIGN_OR_RETURN(broker_, build::Broker::Create(std::move(broker), store_.get(), builder_.get()));
  ASSIGN_OR_RETURN(jit_caches_, JitCaches::Create({cache_dir_}));
  SupervisorOptions supervisor;
  supervisor.jit_caches = jit_caches_.get();
  supervisor.worker_id = worker_id_;
  supervisor.on_lock = [this](const std::string& device, absl::string_view operation, double wait_s,
                              double held_s) {
    metrics_->ObserveLock(device, operation, wait_s, held_s);
  };
  supervisor.monitor = monitor_.get();
  supervisor.on_quarantine = [this](const std::string& device, double seconds) {
    metrics_->AddQuarantined(device, seconds);
  };
  RETURN_IF_ERROR(units_->Supervise(supervisor, broker_.get()));
  slots_ = std::make_unique<LeaseSlots>(
      options_.slots,
      [this](const v1::Lease& lease, const std::stop_token& stop) { return RunLease(lease, stop); },
      [this](v1::LeaseResult result) { client_->Finish(std::move(result)); });
  return absl::OkStatus();
}

absl::StatusOr<EvaluationRequest> Worker::Fetch(const v1::Lease& lease) {
  const v1::RunWork& run = lease.run();
  EvaluationRequest request;
  ASSIGN_OR_RETURN(request.candidate_source, blobs_->Read(run.candidate_sha256()));
  ASSIGN_OR_RETURN(request.task.source, blobs_->Read(run.task_sha256()));
  request.task.version = run.task_version();
  request.task.weight_seed = run.weight_seed();
  request.task.entry_reference = run.entry_reference();
  request.policy = run.policy();
  request.best_speedup = run.best_speedup();
  request.arch = lease.arch();
  if (run.toolchain_digest() != toolchain_digest_)
    request.builds_toolchain_digest = run.toolchain_digest();
  // A build that is not there yet is made or fetched when it is asked for.
  for (const v1::ArtifactRef& artifact : run.artifacts()) {
    request.built_artifacts.insert(artifact.artifact_sha256());
    const absl::Status status = broker_->Prefetch(artifact.key(), artifact.artifact_sha256());
    if (!status.ok())
      LogWarning(absl::StrCat("prefetch ", artifact.key(), ": ", status.ToString()));
  }
  return request;
}

v1::LeaseResult Worker::RunLease(const v1::Lease& lease, const std::stop_token& stop) {
  if (!lease.has_run())
    return Failure(absl::InvalidArgumentError("a GPU worker runs candidates only"));
  metrics_->AddBusySlots(1);
  const absl::StatusOr<EvaluationRequest> request = Fetch(lease);
  v1::LeaseResult result;
  if (!request.ok()) {
    result = Failure(request.status());
  } else {
    const service::LeaseKey key{lease.lease_id(), lease.attempt()};
    const DeviceUnits::Seat seat = units_->Take(stop);
    result = seat.supervisor()->Evaluate(
        *request, [this, &key](v1::Stage stage) { client_->SetStage(key, stage); }, stop);
  }
  if (result.has_verdict())
    result.mutable_verdict()->mutable_evidence()->set_attempt(lease.attempt());
  metrics_->ObserveStages(result.times());
  metrics_->AddBusySlots(-1);
  return result;
}

absl::Status Worker::Run(service::StopSignal* stop) {
  client_->Start();
  std::vector<std::string> names;
  for (const device::Device& device : devices_)
    names.push_back(absl::StrCat(device.id, " (", device.gpu_class, ")"));
  LogInfo(absl::StrCat("worker ", worker_id_, " on ", absl::StrJoin(names, ", "), "; ",
                       options_.slots, " at once"));
  bool has_ended = false;
  while (!has_ended && !stop->is_requested()) {
    has_ended = client_->WaitUntilEnded(MonoNow());
    if (!has_ended)
      stop->WaitUntil(MonoNow() + kTickEvery);
    units_->CloseIdle(MonoNow());
  }
  if (!has_ended) {
    LogInfo("stopping");
    client_->Drain("the worker was told to stop");
    if (!client_->WaitUntilEnded(MonoNow() + std::chrono::seconds(options_.drain_seconds))) {
      client_->Abandon("the worker was told to stop");
      client_->WaitUntilEnded(MonoNow() + kFlushTimeout);
    }
  }
  client_->Stop();  // first: it calls into the slots
  slots_.reset();
  return client_->end_status();
}

}  // namespace

absl::Status RunWorker(const Options& options, service::StopSignal* stop) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Worker> worker, Worker::Create(options));
  return worker->Run(stop);
}

}  // namespace pike::gpu
