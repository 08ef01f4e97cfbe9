#include "compile_worker/server/worker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/build/broker.h"
#include "common/build/build_record.h"
#include "common/build/local_builder.h"
#include "common/build/toolchain.h"
#include "common/device/core_plan.h"
#include "common/sandbox/host_quiet.h"
#include "common/sandbox/sandbox_host.h"
#include "common/sandbox/warm_pool.h"
#include "common/service/artifact_client.h"
#include "common/service/blob_client.h"
#include "common/service/channel.h"
#include "common/service/metrics.h"
#include "common/service/runtime_dir.h"
#include "common/service/service_artifact_store.h"
#include "common/service/worker_client.h"
#include "compile_worker/server/import_sandbox.h"
#include "compile_worker/server/lease_runner.h"
#include "compile_worker/server/lease_slots.h"
#include "compile_worker/server/source_check.h"
#include "compile_worker/server/worker_metrics.h"

namespace pike::compile_worker {
namespace {

constexpr char kProcessName[] = "pike-compile-worker";
constexpr char kVersion[] = "0.1.0";
constexpr std::chrono::seconds kHandBackTime{5};
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

uint64_t Bytes(double gib) {
  return static_cast<uint64_t>(gib * kGib);
}

// What is found out about this machine before anything is started.
struct Place {
  std::string target;
  std::string runtime_dir;
  std::string cache_dir;
  std::string share_dir;
  build::ProbedToolchain toolchain;
  size_t slots = 1;
};

absl::StatusOr<Place> FindPlace(const Options& options) {
  Place place;
  ASSIGN_OR_RETURN(place.runtime_dir, service::OpenRuntimeDir(options.runtime_dir));
  ASSIGN_OR_RETURN(place.target, service::FindService(options.service, place.runtime_dir));
  place.cache_dir = options.cache_dir;
  if (place.cache_dir.empty()) {
    ASSIGN_OR_RETURN(const std::string state_dir, service::OpenStateDir(""));
    place.cache_dir = absl::StrCat(state_dir, "/compile-worker");
  }
  RETURN_IF_ERROR(service::MakeFolders(place.cache_dir, 0700));
  ASSIGN_OR_RETURN(place.share_dir, build::FindShareDir());
  build::ProbeOptions probe;
  probe.python = options.python;
  probe.share_dir = place.share_dir;
  probe.cache_dir = place.cache_dir;
  ASSIGN_OR_RETURN(place.toolchain, build::ProbeToolchain(probe));
  if (!place.toolchain.can_build())
    return absl::FailedPreconditionError("no g++ on this machine: apt install g++");
  if (!place.toolchain.can_build_cuda())
    LogWarning("no nvcc on this machine: CUDA extensions cannot be built here");
  place.slots = options.slots;
  if (place.slots == 0)
    place.slots = std::min<size_t>(service::kWorkerSlotsMax,
                                   build::DefaultBuildSlots(Bytes(options.build_memory_gib)));
  return place;
}

service::SessionOptions SessionFor(const Place& place, const sandbox::SandboxHost& host) {
  service::SessionOptions session;
  v1::Hello& hello = session.hello;
  hello.set_worker_id(service::MakeWorkerId("compile"));
  hello.set_kind(v1::WORKER_KIND_COMPILE);
  hello.set_host(service::HostName());
  hello.set_slots(static_cast<uint32_t>(place.slots));
  *hello.mutable_toolchain() = build::ToProto(place.toolchain.toolchain);
  hello.set_can_build(true);
  for (const std::string& capability : host.capabilities().names)
    hello.add_capabilities(capability);
  for (const std::string& layer : host.capabilities().missing)
    hello.add_sandbox_missing(layer);
  hello.set_version(kVersion);
  return session;
}

service::BlobClientOptions BlobOptions(const Place& place) {
  service::BlobClientOptions options;
  options.cache_dir = absl::StrCat(place.cache_dir, "/blobs");
  return options;
}

// Everything that works on leases, in dependency order: the last member stops first.
class Worker {
 public:
  static absl::StatusOr<std::unique_ptr<Worker>> Create(const Options& options, const Place& place,
                                                        service::Metrics* metrics) {
    sandbox::HostOptions host_options;
    host_options.uid_base = options.uid_base;
    host_options.is_without_cgroups = options.is_without_cgroups;
    ASSIGN_OR_RETURN(std::unique_ptr<sandbox::SandboxHost> host,
                     sandbox::SandboxHost::Create(host_options));
    if (options.is_sandbox_required)
      RETURN_IF_ERROR(sandbox::RequireAllLayers(host->capabilities()));
    std::unique_ptr<Worker> worker(new Worker(options, place, std::move(host), metrics));
    RETURN_IF_ERROR(worker->StartBroker(options, place));
    worker->StartLeases(options, place);
    ASSIGN_OR_RETURN(worker->quiet_,
                     sandbox::QuietListener::Start(place.runtime_dir, absl::StrCat(::getpid()),
                                                   worker->host_.get()));
    return worker;
  }

  service::WorkerClient* client() { return client_.get(); }

  // OK after a drain; the refusal otherwise. Call it once the session has ended.
  absl::Status end() const {
    MutexLock lock(&mutex_);
    return end_;
  }

 private:
  Worker(const Options& options, const Place& place, std::unique_ptr<sandbox::SandboxHost> host,
         service::Metrics* metrics)
      : metrics_(&metrics->registry()),
        channel_(service::MakeChannel(place.target)),
        blobs_(channel_, BlobOptions(place)),
        artifacts_(channel_, [this] { return client_ == nullptr ? "" : client_->session_id(); }),
        store_(&artifacts_, &blobs_),
        host_(std::move(host)),
        source_check_(host_.get(), place.toolchain.paths, place.share_dir),
        builder_({place.toolchain, static_cast<int64_t>(Bytes(options.build_memory_gib))},
                 host_.get()) {
    metrics_.SetSlots(place.slots);
  }

  absl::Status StartBroker(const Options& options, const Place& place) {
    build::BrokerOptions broker;
    broker.cache_dir = absl::StrCat(place.cache_dir, "/artifacts");
    broker.toolchain_digest = place.toolchain.toolchain.Digest();
    broker.cache_bytes_max = Bytes(options.cache_gib);
    broker.slots = place.slots;
    broker.on_built = [this](absl::string_view outcome, double seconds) {
      metrics_.ObserveBuild(outcome, seconds);
    };
    broker.on_answered = [this](absl::string_view source) { metrics_.CountAnswer(source); };
    ASSIGN_OR_RETURN(broker_, build::Broker::Create(std::move(broker), &store_, &builder_));
    return absl::OkStatus();
  }

  void StartLeases(const Options& options, const Place& place) {
    sandbox::WarmPoolOptions pool_options;
    pool_options.ready_target = options.warm;
    pool_options.channel_fd = kFrameFd;
    const sandbox::SandboxSpec spec = ImportSandboxSpec(
        place.toolchain.paths, place.share_dir, static_cast<int64_t>(Bytes(options.memory_gib)));
    pool_ = std::make_unique<sandbox::WarmPool>(
        host_.get(), [spec]() -> absl::StatusOr<sandbox::SandboxSpec> { return spec; },
        pool_options);

    service::SessionOptions session = SessionFor(place, *host_);
    LeaseRunner::Parts parts;
    parts.blobs = &blobs_;
    parts.broker = broker_.get();
    parts.pool = pool_.get();
    parts.source_check = &source_check_;
    parts.identity = {session.hello.worker_id(), session.hello.toolchain().digest(),
                      host_->capabilities().names};
    parts.on_compile_stage = [this](double seconds) { metrics_.ObserveCompileStage(seconds); };
    runner_ = std::make_unique<LeaseRunner>(std::move(parts));

    service::WorkerCallbacks callbacks;
    callbacks.on_lease = [this](v1::Lease lease) { OnLease(std::move(lease)); };
    callbacks.on_cancel = [this](const service::LeaseKey& key) { slots_->Cancel(key); };
    callbacks.on_ended = [this](absl::Status status) {
      MutexLock lock(&mutex_);
      end_ = std::move(status);
    };
    LogInfo(absl::StrCat("worker ", session.hello.worker_id(), " with ", place.slots,
                         " slots, toolchain ", place.toolchain.toolchain.torch_version));
    client_ =
        std::make_unique<service::WorkerClient>(channel_, std::move(session), std::move(callbacks));
    slots_ = std::make_unique<LeaseSlots>(
        place.slots,
        [this](const v1::Lease& lease, const std::stop_token& stop) {
          metrics_.AddBusySlots(1);
          v1::LeaseResult result = runner_->Run(lease, stop);
          metrics_.AddBusySlots(-1);
          return result;
        },
        [this](v1::LeaseResult result) { client_->Finish(std::move(result)); });
    client_->Start();
  }

  void OnLease(v1::Lease lease) {
    const v1::LeaseResult refusal =
        InfraResult(lease, absl::ResourceExhaustedError("more leases than slots"));
    if (!slots_->Start(std::move(lease)))
      client_->Finish(refusal);
  }

 public:
  // Stops the session and what it feeds, in the order that lets nobody call into the gone.
  ~Worker() {
    if (client_ != nullptr)
      client_->Stop();  // no callback comes after it
    slots_.reset();
    runner_.reset();
    pool_.reset();
    broker_.reset();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

 private:
  WorkerMetrics metrics_;
  const std::shared_ptr<grpc::Channel> channel_;
  service::BlobClient blobs_;
  service::ArtifactClient artifacts_;
  service::ServiceArtifactStore store_;
  const std::unique_ptr<sandbox::SandboxHost> host_;
  const SourceCheck source_check_;
  build::LocalBuilder builder_;
  std::unique_ptr<build::Broker> broker_;
  std::unique_ptr<sandbox::WarmPool> pool_;
  std::unique_ptr<LeaseRunner> runner_;
  std::unique_ptr<service::WorkerClient> client_;
  std::unique_ptr<LeaseSlots> slots_;
  std::unique_ptr<sandbox::QuietListener> quiet_;
  mutable Mutex mutex_;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status RunWorker(const Options& options, service::StopSignal* stop) {
  if (!options.cores.empty()) {
    // Before any thread is made, so that all that we start stays there, too.
    ASSIGN_OR_RETURN(const std::vector<int> cores, device::ParseCores(options.cores));
    RETURN_IF_ERROR(device::StayOn(cores));
  }
  ASSIGN_OR_RETURN(const Place place, FindPlace(options));
  service::MetricsOptions metrics_options;
  metrics_options.process_name = kProcessName;
  metrics_options.address = options.metrics_address;
  metrics_options.runtime_dir = place.runtime_dir;
  ASSIGN_OR_RETURN(const std::unique_ptr<service::Metrics> metrics,
                   service::Metrics::Start(metrics_options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Worker> worker,
                   Worker::Create(options, place, metrics.get()));
  bool has_ended = false;
  while (!has_ended && !stop->is_requested())
    has_ended = worker->client()->WaitUntilEnded(MonoNow() + std::chrono::milliseconds(200));
  if (!has_ended) {
    LogInfo("stopping: running leases go back to the coordinator");
    worker->client()->Abandon("the worker was told to stop");
    has_ended = worker->client()->WaitUntilEnded(MonoNow() + kHandBackTime);
  }
  return has_ended ? worker->end() : absl::OkStatus();
}

}  // namespace pike::compile_worker
