// The real pike-gpu-worker against a scripted coordinator over real gRPC.

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/service/channel.h"
#include "pike/v1/blob.grpc.pb.h"
#include "pike/v1/worker.grpc.pb.h"
#include "tests/testing/catch.h"
#include "tests/testing/process_tree.h"

extern char** environ;

namespace pike::gpu {
namespace {

// Import of torch, several times, on a busy machine.
constexpr std::chrono::seconds kWait{240};

constexpr char kTask[] = R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(64, 64)]
def get_init_inputs():
    return []
)";
constexpr char kGood[] = R"(
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + x
)";
constexpr char kSleeper[] = R"(
import time, torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        time.sleep(3600)
)";

std::string Env(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(value != nullptr);
  return value;
}

class ScriptedBlobs : public v1::Blob::Service {
 public:
  grpc::Status Read(grpc::ServerContext*, const v1::ReadBlobRequest* request,
                    grpc::ServerWriter<v1::ReadBlobResponse>* writer) override {
    const auto found = blobs.find(request->sha256());
    if (found == blobs.end())
      return {grpc::StatusCode::NOT_FOUND, "no such blob"};
    v1::ReadBlobResponse response;
    response.set_chunk(found->second);
    response.set_size_bytes(found->second.size());
    writer->Write(response);
    return grpc::Status::OK;
  }
  std::string Add(const std::string& bytes) {
    const std::string sha256 = Sha256Hex(bytes);
    blobs[sha256] = bytes;
    return sha256;
  }

 private:
  std::map<std::string, std::string> blobs;
};

// One worker stream at a time; everything the worker says is kept for the test to look at.
class ScriptedCoordinator : public v1::Worker::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;

  grpc::Status Session(grpc::ServerContext*, Stream* stream) override {
    v1::WorkerMessage message;
    while (stream->Read(&message)) {
      MutexLock lock(&mutex_);
      if (message.has_hello()) {
        v1::CoordinatorMessage welcome;
        welcome.mutable_welcome()->set_session_id("s");
        welcome.mutable_welcome()->set_heartbeat_interval_ms(200);
        stream->Write(welcome);
        stream_ = stream;
        ++sessions_;
        hello_ = message.hello();
      } else if (message.has_lease_result()) {
        results_.push_back(message.lease_result());
        v1::CoordinatorMessage ack;
        ack.mutable_result_ack()->set_lease_id(message.lease_result().lease_id());
        ack.mutable_result_ack()->set_attempt(message.lease_result().attempt());
        stream->Write(ack);
      } else if (message.has_stage_change()) {
        stages_.push_back(message.stage_change().stage());
      } else if (message.has_heartbeat()) {
        ++heartbeats_;
      }
      changed_.NotifyAll();
    }
    MutexLock lock(&mutex_);
    if (stream_ == stream)
      stream_ = nullptr;
    changed_.NotifyAll();
    return grpc::Status::OK;
  }

  // Waits until `condition`, which is called with the lock held.
  bool Wait(const std::function<bool()>& condition) {
    const MonoTime deadline = MonoNow() + kWait;
    MutexLock lock(&mutex_);
    while (!condition()) {
      // Conditions may be about processes, which notify nobody.
      changed_.WaitUntil(&mutex_, std::min(deadline, MonoNow() + std::chrono::milliseconds(100)));
      if (MonoNow() >= deadline)
        return condition();
    }
    return true;
  }
  bool WaitForSession(int count) {
    return Wait([this, count] { return sessions_ >= count && stream_ != nullptr; });
  }
  bool WaitForResults(size_t count) {
    return Wait([this, count] { return results_.size() >= count; });
  }
  bool WaitForStage(v1::Stage stage) {
    return Wait([this, stage] { return !stages_.empty() && stages_.back() == stage; });
  }
  void Send(const v1::CoordinatorMessage& message) {
    MutexLock lock(&mutex_);
    REQUIRE(stream_ != nullptr);
    stream_->Write(message);
  }
  v1::LeaseResult Result(size_t index) {
    MutexLock lock(&mutex_);
    return results_.at(index);
  }
  v1::Hello hello() {
    MutexLock lock(&mutex_);
    return hello_;
  }
  int heartbeats() {
    MutexLock lock(&mutex_);
    return heartbeats_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  Stream* stream_ = nullptr;
  int sessions_ = 0;
  int heartbeats_ = 0;
  v1::Hello hello_;
  std::vector<v1::LeaseResult> results_;
  std::vector<v1::Stage> stages_;
};

class WorkerFixture {
 public:
  WorkerFixture() {
    auto made = TempFolder::Create("pike-worker");
    REQUIRE(made.ok());
    folder = std::make_unique<TempFolder>(*std::move(made));
    target = "unix:" + folder->path() + "/pike.sock";
    StartServer();
  }
  ~WorkerFixture() {
    if (pid > 0)
      KillWorker();
    StopServer();
  }

  void StartServer() {
    grpc::ServerBuilder builder;
    service::ApplyServerLimits(&builder);
    builder.AddListeningPort(target, grpc::InsecureServerCredentials());
    builder.RegisterService(&coordinator);
    builder.RegisterService(&blobs);
    server = builder.BuildAndStart();
    REQUIRE(server != nullptr);
  }
  void StopServer() { server->Shutdown(std::chrono::system_clock::now()); }

  void StartWorker() {
    // The build's own native parts are found by their digest where they were built.
    std::vector<std::string> words = {Env("PIKE_BIN_DIR") + "/pike-gpu-worker",
                                      "--service",
                                      target,
                                      "--runtime-dir",
                                      folder->path(),
                                      "--python",
                                      Env("PIKE_PYTHON"),
                                      "--cache-dir",
                                      Env("PIKE_BIN_DIR") + "/../native",
                                      "--memory-max",
                                      "1",
                                      "--judge-memory-max",
                                      "2",
                                      "--threads",
                                      "1",
                                      "--drain-seconds",
                                      "1"};
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    REQUIRE(::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
  }
  int Reap() {
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    pid = -1;
    return status;
  }
  void KillWorker() {
    ::kill(pid, SIGKILL);
    Reap();
  }

  v1::CoordinatorMessage Lease(const std::string& id, const std::string& candidate) {
    v1::CoordinatorMessage message;
    v1::Lease* lease = message.mutable_lease();
    lease->set_lease_id(id);
    lease->set_attempt(2);
    lease->set_deadline_ms(600'000);
    lease->set_arch("cpu");
    v1::RunWork* run = lease->mutable_run();
    run->set_candidate_sha256(blobs.Add(candidate));
    run->set_task_sha256(blobs.Add(kTask));
    run->set_task_version(Sha256Hex(kTask));
    run->set_entry_reference("Model");
    v1::Policy* policy = run->mutable_policy();
    policy->set_atol(1e-2);
    policy->set_rtol(1e-2);
    policy->set_correctness_trials(5);
    policy->set_warmup_calls(1);
    policy->set_timed_calls_max(5);
    policy->set_timed_ms_max(100);
    policy->set_load_timeout_ms(60'000);
    policy->set_build_timeout_ms(60'000);
    policy->set_first_call_timeout_ms(60'000);
    policy->set_call_timeout_ms(60'000);
    return message;
  }

  bool IsLockFree() const {
    const UniqueFd file(::open((folder->path() + "/locks/cpu.lock").c_str(), O_RDWR | O_CLOEXEC));
    return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  }

  std::unique_ptr<TempFolder> folder;
  std::string target;
  ScriptedBlobs blobs;
  ScriptedCoordinator coordinator;
  std::unique_ptr<grpc::Server> server;
  pid_t pid = -1;
};

TEST_CASE("pike-gpu-worker: evaluates a lease and leaves on SIGTERM") {
  WorkerFixture fixture;
  fixture.StartWorker();
  REQUIRE(fixture.coordinator.WaitForSession(1));
  const v1::Hello hello = fixture.coordinator.hello();
  CHECK(hello.kind() == v1::WORKER_KIND_GPU);
  CHECK(hello.worker_id().rfind("gpu-", 0) == 0);
  CHECK(hello.toolchain().digest().size() == 64);
  REQUIRE(hello.devices_size() == 1);
  CHECK(hello.devices(0).gpu_class() == "cpu");
  fixture.coordinator.Send(fixture.Lease("a", kGood));
  REQUIRE(fixture.coordinator.WaitForResults(1));
  const v1::LeaseResult result = fixture.coordinator.Result(0);
  INFO(result.ShortDebugString());
  CHECK(result.attempt() == 2);
  CHECK(result.verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(result.verdict().evidence().worker_id() == hello.worker_id());
  CHECK(result.times().locks_size() == 3);
  CHECK(fixture.coordinator.heartbeats() > 1);

  // An address under the name of the process, as Prometheus would look for it.
  CHECK(ReadFile(fixture.folder->path() + "/metrics/pike-gpu-worker", 100).ok());
  ::kill(fixture.pid, SIGTERM);
  const int status = fixture.Reap();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(testing::Processes(fixture.folder->path()).empty());
}

TEST_CASE("pike-gpu-worker: killed in mid-evaluation it leaves no process and no lock behind") {
  WorkerFixture fixture;
  fixture.StartWorker();
  REQUIRE(fixture.coordinator.WaitForSession(1));
  const std::vector<pid_t> before = testing::Descendants(fixture.pid, "");
  fixture.coordinator.Send(fixture.Lease("a", kSleeper));
  REQUIRE(fixture.coordinator.WaitForStage(v1::STAGE_PREPARE));
  const std::vector<pid_t> processes = testing::Descendants(fixture.pid, "");
  CHECK_FALSE(processes.empty());
  fixture.KillWorker();
  REQUIRE(fixture.coordinator.Wait([&processes] {
    for (const pid_t pid : processes) {
      const auto all = testing::AllProcesses();
      if (all.contains(pid) && all.at(pid).state != 'Z')
        return false;
    }
    return true;
  }));
  CHECK(fixture.IsLockFree());
  fixture.StartWorker();
  REQUIRE(fixture.coordinator.WaitForSession(2));
  fixture.coordinator.Send(fixture.Lease("b", kGood));
  REQUIRE(fixture.coordinator.WaitForResults(1));
  CHECK(fixture.coordinator.Result(0).lease_id() == "b");
  CHECK(fixture.coordinator.Result(0).verdict().kind() == v1::VERDICT_KIND_VALID);
}

TEST_CASE("pike-gpu-worker: outlives its coordinator and hands a running lease back on SIGTERM") {
  WorkerFixture fixture;
  fixture.StartWorker();
  REQUIRE(fixture.coordinator.WaitForSession(1));
  fixture.coordinator.Send(fixture.Lease("a", kSleeper));
  REQUIRE(fixture.coordinator.WaitForStage(v1::STAGE_PREPARE));
  fixture.StopServer();
  fixture.StartServer();
  REQUIRE(fixture.coordinator.WaitForSession(2));
  REQUIRE(fixture.coordinator.hello().held_leases_size() == 1);
  CHECK(fixture.coordinator.hello().held_leases(0).lease_id() == "a");
  ::kill(fixture.pid, SIGTERM);
  REQUIRE(fixture.coordinator.WaitForResults(1));
  const v1::LeaseResult result = fixture.coordinator.Result(0);
  INFO(result.ShortDebugString());
  REQUIRE(result.has_infra_failure());
  CHECK(result.infra_failure().is_retryable());
  CHECK(WEXITSTATUS(fixture.Reap()) == 0);
}

}  // namespace
}  // namespace pike::gpu
