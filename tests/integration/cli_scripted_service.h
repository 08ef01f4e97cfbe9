#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <grpcpp/grpcpp.h>

#include "common/base/mutex.h"
#include "pike/v1/admin.grpc.pb.h"
#include "pike/v1/evaluation.grpc.pb.h"
#include "pike/v1/task.grpc.pb.h"

namespace pike::testing {

// A service that answers by script: the verdict of a candidate is the word in its name, and one
// with "waits" in it ends when told to.

inline constexpr char kEscape[] = "\x1b[31mred";

// The evaluations, kept over restarts of the server.
class Script {
 public:
  absl::StatusOr<v1::EvaluationRecord> Submit(const v1::SubmitRequest& request) {
    MutexLock lock(&mutex_);
    const std::string& name = request.candidate_name();
    if (request.policy().name() != "paper")
      return absl::InvalidArgumentError("there is no such policy");
    if (absl::StrContains(name, "refused"))
      return absl::FailedPreconditionError("no worker can do that");
    if (const auto it = by_key_.find(request.client_key()); it != by_key_.end())
      return records_[it->second];
    const std::string id = absl::StrCat("e", records_.size() + 1);
    v1::EvaluationRecord& record = records_[id];
    record.set_evaluation_id(id);
    record.set_candidate_name(name);
    record.set_task_name("suite/01_task");
    record.set_stage(v1::STAGE_COMPILE);
    *record.mutable_policy() = request.policy();
    by_key_[request.client_key()] = id;
    if (!absl::StrContains(name, "waits"))
      End(&record);
    changed_.NotifyAll();
    return record;
  }

  absl::StatusOr<v1::EvaluationRecord> Get(const std::string& id) {
    MutexLock lock(&mutex_);
    const auto it = records_.find(id);
    if (it == records_.end())
      return absl::NotFoundError(absl::StrCat("no evaluation ", id));
    return it->second;
  }

  absl::StatusOr<v1::EvaluationRecord> Cancel(const std::string& id) {
    MutexLock lock(&mutex_);
    v1::EvaluationRecord& record = records_[id];
    record.set_stage(v1::STAGE_ENDED);
    record.mutable_verdict()->set_kind(v1::VERDICT_KIND_CANCELLED);
    cancelled_.insert(id);
    changed_.NotifyAll();
    return record;
  }

  void EndAll() {
    MutexLock lock(&mutex_);
    for (auto& [id, record] : records_)
      End(&record);
    changed_.NotifyAll();
  }

  // Waits until `id` has ended or the server stops.
  v1::EvaluationRecord WaitForEnd(const std::string& id) {
    MutexLock lock(&mutex_);
    watches_++;
    changed_.NotifyAll();
    while (records_[id].stage() != v1::STAGE_ENDED && !is_stopping_)
      changed_.Wait(&mutex_);
    return records_[id];
  }

  void WaitForWatches(int count) {
    MutexLock lock(&mutex_);
    while (watches_ < count)
      changed_.Wait(&mutex_);
  }

  void SetStopping(bool is_stopping) {
    MutexLock lock(&mutex_);
    is_stopping_ = is_stopping;
    changed_.NotifyAll();
  }

  std::vector<v1::EvaluationRecord> All() {
    MutexLock lock(&mutex_);
    std::vector<v1::EvaluationRecord> records;
    for (const auto& [id, record] : records_)
      records.push_back(record);
    return records;
  }

  size_t cancelled() {
    MutexLock lock(&mutex_);
    return cancelled_.size();
  }

 private:
  static void End(v1::EvaluationRecord* record) {
    record->set_stage(v1::STAGE_ENDED);
    v1::Verdict* verdict = record->mutable_verdict();
    verdict->set_kind(v1::VERDICT_KIND_VALID);
    verdict->mutable_measurement()->set_speedup(1.5);
    for (const auto& [word, kind] : std::map<std::string, v1::VerdictKind>{
             {"incorrect", v1::VERDICT_KIND_INCORRECT}, {"infra", v1::VERDICT_KIND_INFRA_ERROR}}) {
      if (!absl::StrContains(record->candidate_name(), word))
        continue;
      verdict->clear_measurement();
      verdict->set_kind(kind);
      verdict->set_reason(absl::StrCat("because of ", word, kEscape));
      verdict->mutable_evidence()->mutable_stdout_tail()->set_head(kEscape);
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, v1::EvaluationRecord> records_;
  std::map<std::string, std::string> by_key_;
  std::set<std::string> cancelled_;
  int watches_ = 0;
  bool is_stopping_ = false;
};

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

template <typename Response>
grpc::Status Answer(const absl::StatusOr<v1::EvaluationRecord>& record, Response* response) {
  if (!record.ok())
    return ToGrpc(record.status());
  *response->mutable_evaluation() = *record;
  return grpc::Status::OK;
}

class ScriptedTask : public v1::Task::Service {
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterTaskRequest* request,
                        v1::RegisterTaskResponse* response) override {
    if (absl::StrContains(request->name(), "busy"))
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "busy; retry later");
    response->mutable_task()->set_version("0123456789abcdef");
    response->mutable_task()->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status List(grpc::ServerContext*, const v1::ListTasksRequest*,
                    v1::ListTasksResponse* response) override {
    response->add_tasks()->set_name("suite/01_task");
    response->mutable_tasks(0)->set_version(std::string(64, 'f'));
    return grpc::Status::OK;
  }
};

class ScriptedEvaluation : public v1::Evaluation::Service {
 public:
  explicit ScriptedEvaluation(Script* script) : script_(script) {}

 private:
  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest* request,
                      v1::SubmitResponse* response) override {
    return Answer(script_->Submit(*request), response);
  }
  grpc::Status Get(grpc::ServerContext*, const v1::GetEvaluationRequest* request,
                   v1::GetEvaluationResponse* response) override {
    return Answer(script_->Get(request->evaluation_id()), response);
  }
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest* request,
                      v1::CancelResponse* response) override {
    return Answer(script_->Cancel(request->evaluation_id()), response);
  }
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchResponse>* writer) override {
    v1::WatchResponse response;
    *response.mutable_evaluation() = *script_->Get(request->evaluation_id());
    writer->Write(response);
    if (response.evaluation().stage() == v1::STAGE_ENDED)
      return grpc::Status::OK;
    *response.mutable_evaluation() = script_->WaitForEnd(request->evaluation_id());
    if (response.evaluation().stage() != v1::STAGE_ENDED)
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping");
    writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status List(grpc::ServerContext*, const v1::ListEvaluationsRequest*,
                    v1::ListEvaluationsResponse* response) override {
    for (const v1::EvaluationRecord& record : script_->All())
      *response->add_evaluations() = record;
    response->set_next_page_token("more");
    return grpc::Status::OK;
  }

  Script* const script_;
};

class ScriptedAdmin : public v1::Admin::Service {
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override {
    v1::WorkerRecord* worker = response->add_workers();
    worker->set_worker_id("gpu-host-1");
    worker->set_kind(v1::WORKER_KIND_GPU);
    worker->set_state(v1::WORKER_STATE_READY);
    return grpc::Status::OK;
  }
  grpc::Status DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest* request,
                           v1::DrainWorkerResponse* response) override {
    if (request->worker_id() != "gpu-host-1")
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no such worker");
    response->mutable_worker()->set_worker_id(request->worker_id());
    response->mutable_worker()->set_state(v1::WORKER_STATE_DRAINING);
    response->mutable_worker()->set_leases(1);
    return grpc::Status::OK;
  }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    response->set_ended_evaluations(7);
    return grpc::Status::OK;
  }
};

// The script served on a Unix socket.
class Service {
 public:
  Service(Script* script, const std::string& target) : script_(script), evaluation_(script) {
    script_->SetStopping(false);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(target, grpc::InsecureServerCredentials());
    builder.RegisterService(&task_);
    builder.RegisterService(&evaluation_);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
  }
  ~Service() {
    script_->SetStopping(true);
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  }

 private:
  Script* const script_;
  ScriptedTask task_;
  ScriptedEvaluation evaluation_;
  ScriptedAdmin admin_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace pike::testing
