#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/base/file.h"
#include "coordinator/server/server.h"
#include "tests/testing/catch.h"
#include "tests/testing/coordinator_client.h"

namespace pike::coordinator {

// A real server on a temporary Unix socket with its real store, and a client of it.
class CoordinatorFixture {
 public:
  // `canary_interval_s`: 0, workers are not tried.
  explicit CoordinatorFixture(CoreOptions core = {.gpu_classes = {"cpu"}},
                              uint32_t canary_interval_s = 0)
      : core_options_(std::move(core)), canary_interval_s_(canary_interval_s) {
    Start();
  }

  void Start() {
    Options options;
    options.listen = "unix:" + folder_.path() + "/pike.sock";
    options.store = folder_.path() + "/state";
    options.runtime_dir = folder_.path();
    options.metrics_address = "off";
    options.core = core_options_;
    options.canary_interval_s = canary_interval_s_;
    auto server = Server::Start(options, [] {});
    INFO(std::string(server.status().message()));
    REQUIRE(server.ok());
    server_ = std::move(server).value();
  }
  void Stop() {
    REQUIRE(server_->Stop().ok());
    server_.reset();
  }
  std::string target() const { return server_->target(); }

  std::string RegisterTask() {
    v1::RegisterTaskRequest request;
    request.set_name("level1/1_square");
    request.set_source("class Model: pass");
    const auto response = client().Register(request);
    REQUIRE(response.ok());
    return response->task().version();
  }
  v1::SubmitRequest GoodRequest() {
    v1::SubmitRequest request;
    request.set_task_version(RegisterTask());
    request.set_candidate_source("class ModelNew: pass");
    request.set_candidate_name("good.py");
    return request;
  }
  v1::EvaluationRecord Submit(const v1::SubmitRequest& request) {
    const auto response = client().Submit(request);
    INFO(std::string(response.status().message()));
    REQUIRE(response.ok());
    return response->evaluation();
  }
  CoordinatorClient& client() {
    if (client_ == nullptr)
      client_ = std::make_unique<CoordinatorClient>(target());
    return *client_;
  }

 private:
  const CoreOptions core_options_;
  const uint32_t canary_interval_s_;
  TempFolder folder_ = TempFolder::Create("pike-coordinator").value();
  std::unique_ptr<Server> server_;
  std::unique_ptr<CoordinatorClient> client_;
};

// A worker that was welcomed.
struct WelcomedWorker : ScriptedWorker {
  WelcomedWorker(const std::string& target, const v1::Hello& hello)
      : ScriptedWorker(target, hello) {
    welcome = Read().welcome();
    REQUIRE_FALSE(welcome.session_id().empty());
  }
  v1::Lease NextLease() {
    const v1::CoordinatorMessage message = Read();
    INFO(message.ShortDebugString());
    REQUIRE(message.has_lease());
    return message.lease();
  }
  v1::Welcome welcome;
};

}  // namespace pike::coordinator
