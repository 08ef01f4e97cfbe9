#include "coordinator/server/server.h"

#include <chrono>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/service/channel.h"
#include "common/service/metrics.h"
#include "coordinator/rpc/admin_service.h"
#include "coordinator/rpc/artifact_service.h"
#include "coordinator/rpc/blob_service.h"
#include "coordinator/rpc/evaluation_service.h"
#include "coordinator/rpc/task_service.h"
#include "coordinator/rpc/worker_service.h"
#include "coordinator/server/canaries.h"
#include "coordinator/server/listener.h"
#include "coordinator/server/loop.h"
#include "coordinator/server/loop_metrics.h"
#include "coordinator/store/blob_folder.h"
#include "coordinator/store/sqlite_store.h"
#include "coordinator/store/store_folder.h"

namespace pike::coordinator {
namespace {

constexpr size_t kPoolThreads = 4;
constexpr size_t kPoolWaitingMax = 1024;
// Calls that no answer ends, such as half-sent blobs, are cut after this.
constexpr std::chrono::seconds kShutdownGrace{2};
// A dead peer is noticed after at most this and the timeout; clients may ping half as often.
constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kPingIntervalMinMs = 5'000;

// gRPC reads these switches when a server is built.
void EnableServerFeatures() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void ApplyKeepalive(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kPingIntervalMinMs);
  // Otherwise two coordinators could share one port and split the workers.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

absl::StatusOr<CoreOptions> CompleteCore(const Options& options, const BlobFolder& blobs) {
  CoreOptions core = options.core;
  if (options.canary_interval_s == 0)
    return core;
  core.canary_interval = std::chrono::seconds(options.canary_interval_s);
  ASSIGN_OR_RETURN(core.canaries, LoadCanaries(CanaryFolder(), blobs));
  return core;
}

}  // namespace

// Destroyed from the bottom: gRPC first, since its calls use everything above it.
struct Server::Parts {
  Parts(const Options& options, const CoreOptions& core, StoreFolder store_folder,
        std::unique_ptr<Store> opened_store, BlobFolder blob_folder,
        std::unique_ptr<service::Metrics> started_metrics)
      : folder(std::move(store_folder)),
        store(std::move(opened_store)),
        blobs(std::move(blob_folder)),
        metrics(std::move(started_metrics)),
        loop_metrics(&metrics->registry()),
        mailbox(options.mailbox_max),
        board(options.watchers_max),
        sessions(&mailbox),
        pool(kPoolThreads, kPoolWaitingMax),
        loop({.version = PIKE_VERSION}, core,
             {.store = store.get(),
              .mailbox = &mailbox,
              .calls = &calls,
              .sessions = &sessions,
              .board = &board,
              .metrics = &loop_metrics}),
        context({.mailbox = &mailbox,
                 .calls = &calls,
                 .board = &board,
                 .sessions = &sessions,
                 .pool = &pool,
                 .store = store.get(),
                 .blobs = &blobs}) {}

  absl::Status Serve(const Options& options);

  StoreFolder folder;
  std::unique_ptr<Store> store;
  BlobFolder blobs;
  std::unique_ptr<service::Metrics> metrics;
  LoopMetrics loop_metrics;
  LoopMailbox mailbox;
  CallTable calls;
  EvaluationBoard board;
  SessionTable sessions;
  WorkPool pool;
  Loop loop;
  ServiceContext context;
  TaskService task_service{context};
  EvaluationService evaluation_service{context};
  WorkerService worker_service{context};
  BlobService blob_service{context};
  ArtifactService artifact_service{context};
  AdminService admin_service{context};
  std::unique_ptr<grpc::Server> grpc_server;
  std::string target;
  absl::Status loop_status;  // written by the loop's thread, read once it is joined
  std::jthread loop_thread;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Options& options,
                                                      std::function<void()> on_loop_end) {
  ASSIGN_OR_RETURN(StoreFolder folder, StoreFolder::Open(options.store));
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store,
                   SqliteStore::Open({.path = folder.database_path()}));
  ASSIGN_OR_RETURN(BlobFolder blobs, BlobFolder::Open(folder.blob_path(), options.blob_bytes_max));
  ASSIGN_OR_RETURN(std::unique_ptr<service::Metrics> metrics,
                   service::Metrics::Start({.process_name = "pike-coordinator",
                                            .address = options.metrics_address,
                                            .runtime_dir = options.runtime_dir}));
  ASSIGN_OR_RETURN(const CoreOptions core, CompleteCore(options, blobs));
  auto parts = std::make_unique<Parts>(options, core, std::move(folder), std::move(store),
                                       std::move(blobs), std::move(metrics));
  RETURN_IF_ERROR(parts->loop.Recover());
  RETURN_IF_ERROR(parts->Serve(options));
  parts->loop_thread = std::jthread(
      [self = parts.get(), on_loop_end = std::move(on_loop_end)](const std::stop_token& stop) {
        self->loop_status = self->loop.Run(stop);
        if (self->loop_status.ok())
          return;
        LogError(self->loop_status.message());
        on_loop_end();
      });
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() {
  if (parts_->loop_thread.joinable())
    Stop().IgnoreError();
}

const std::string& Server::target() const {
  return parts_->target;
}

absl::Status Server::Parts::Serve(const Options& options) {
  RETURN_IF_ERROR(PrepareListen(options.listen));
  EnableServerFeatures();
  grpc::ServerBuilder builder;
  service::ApplyServerLimits(&builder);
  ApplyKeepalive(&builder);
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  const std::vector<grpc::Service*> services = {&task_service, &evaluation_service, &worker_service,
                                                &blob_service, &artifact_service,   &admin_service};
  for (grpc::Service* service : services)
    builder.RegisterService(service);
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr)
    return absl::UnavailableError(
        absl::StrCat("cannot listen at ", options.listen, "; is the address in use?"));
  target = options.listen;
  if (absl::StartsWith(target, "unix:")) {
    LogInfo(absl::StrCat("listening at ", target));
    return absl::OkStatus();
  }
  target = absl::StrCat(target.substr(0, target.rfind(':') + 1), port);
  LogInfo(absl::StrCat("listening at ", target,
                       ", on loopback only: other addresses need certificates, which are not there "
                       "yet"));
  return absl::OkStatus();
}

absl::Status Server::Stop() {
  const absl::Status stopping =
      absl::UnavailableError("the coordinator is stopping; try again once it is back");
  if (parts_->grpc_server->GetHealthCheckService() != nullptr)
    parts_->grpc_server->GetHealthCheckService()->SetServingStatus(false);
  parts_->calls.RefuseNew(stopping);
  // What is in the mailbox is still decided, stored and answered.
  parts_->loop_thread.request_stop();
  parts_->mailbox.mailbox().Close();
  parts_->loop_thread.join();
  parts_->calls.Close(stopping);
  parts_->board.Close(stopping);
  parts_->sessions.CloseAll(stopping);
  parts_->grpc_server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  parts_->grpc_server->Wait();
  return parts_->loop_status;
}

}  // namespace pike::coordinator
