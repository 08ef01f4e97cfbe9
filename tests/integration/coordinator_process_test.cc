// The real binary, killed without warning.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "tests/testing/catch.h"
#include "tests/testing/coordinator_client.h"

extern char** environ;

namespace pike::coordinator {
namespace {

// `pike-coordinator` on a folder. Killed and reaped by the destructor.
class Process {
 public:
  Process(const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        std::string(std::getenv("PIKE_BIN_DIR")) + "/pike-coordinator", "--runtime-dir", folder,
        "--store", folder + "/state", "--metrics-address", "off",
        // Its scripted workers wait for their evaluations.
        "--canary-interval-s", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    REQUIRE(::posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
  }
  ~Process() { End(SIGKILL); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Returns the exit status, or the negative signal.
  int End(int signal) {
    if (pid_ <= 0)
      return 0;
    ::kill(pid_, signal);
    return Wait();
  }
  int Wait() {
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

v1::SubmitRequest GoodRequest(CoordinatorClient* client) {
  v1::RegisterTaskRequest task;
  task.set_name("level1/1_square");
  task.set_source("class Model: pass");
  const auto registered = client->Register(task);
  REQUIRE(registered.ok());
  v1::SubmitRequest request;
  request.set_task_version(registered->task().version());
  request.set_candidate_source("class ModelNew: pass");
  return request;
}

v1::Lease NextLease(ScriptedWorker* worker) {
  const v1::CoordinatorMessage message = worker->Read();
  REQUIRE(message.has_lease());
  return message.lease();
}

TEST_CASE("pike-coordinator: kill -9 in mid-evaluation loses nothing acknowledged",
          "[coordinator]") {
  const TempFolder folder = TempFolder::Create("pike-coordinator").value();
  const std::string target = "unix:" + folder.path() + "/pike.sock";
  const std::vector<std::string> flags = {"--gpu-class", "cpu"};
  std::string ended;
  std::string in_flight;
  std::vector<std::string> queued;
  v1::Lease run;
  {
    Process process(folder.path(), flags);
    CoordinatorClient client(target);
    const v1::SubmitRequest request = GoodRequest(&client);
    ScriptedWorker compiler(target, CompileHello("compile-1"));
    ScriptedWorker gpu(target, GpuHello("gpu-1"));
    REQUIRE(compiler.Read().has_welcome());
    REQUIRE(gpu.Read().has_welcome());
    ended = client.Submit(request)->evaluation().evaluation_id();
    compiler.SendCompiled(NextLease(&compiler));
    gpu.SendVerdict(NextLease(&gpu), v1::VERDICT_KIND_VALID);
    REQUIRE(client.Watch(ended)->back().verdict().kind() == v1::VERDICT_KIND_VALID);
    in_flight = client.Submit(request)->evaluation().evaluation_id();
    compiler.SendCompiled(NextLease(&compiler));
    run = NextLease(&gpu);
    for (int i = 0; i < 20; ++i)
      queued.push_back(client.Submit(request)->evaluation().evaluation_id());
    REQUIRE(process.End(SIGKILL) == -SIGKILL);
  }
  // The dead one's socket and lock do not stop the next.
  Process process(folder.path(), flags);
  CoordinatorClient client(target);
  CHECK(client.Get(ended)->verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(client.Get(in_flight)->stage() == v1::STAGE_PREPARE);
  for (const std::string& id : queued)
    CHECK(client.Get(id)->evaluation_id() == id);
  v1::Hello hello = GpuHello("gpu-1");
  hello.add_held_leases()->set_lease_id(run.lease_id());
  hello.mutable_held_leases(0)->set_attempt(run.attempt());
  ScriptedWorker gpu(target, hello);
  REQUIRE(gpu.Read().has_welcome());
  gpu.SendVerdict(run, v1::VERDICT_KIND_INCORRECT);
  CHECK(client.Watch(in_flight)->back().verdict().kind() == v1::VERDICT_KIND_INCORRECT);
  CHECK(client.GetStatus()->ended_evaluations() == 2);
  CHECK(client.GetStatus()->active_evaluations() == 20);
  CHECK(process.End(SIGTERM) == 0);
}

TEST_CASE("pike-coordinator: a lease whose worker died with the coordinator is given again",
          "[coordinator]") {
  const TempFolder folder = TempFolder::Create("pike-coordinator").value();
  const std::string target = "unix:" + folder.path() + "/pike.sock";
  std::string id;
  {
    Process process(folder.path(), {"--gpu-class", "cpu"});
    CoordinatorClient client(target);
    ScriptedWorker compiler(target, CompileHello("compile-1"));
    ScriptedWorker gpu(target, GpuHello("gpu-1"));
    REQUIRE(compiler.Read().has_welcome());
    REQUIRE(gpu.Read().has_welcome());
    id = client.Submit(GoodRequest(&client))->evaluation().evaluation_id();
    NextLease(&compiler);
    process.End(SIGKILL);
  }
  // A short grace: nobody comes back for the lease.
  Process process(folder.path(), {"--heartbeat-ms", "100", "--lease-timeout-ms", "1000"});
  CoordinatorClient client(target);
  REQUIRE(client
              .Watch(id,
                     [](const v1::EvaluationRecord& record) {
                       return record.stage() != v1::STAGE_QUEUED_COMPILE;
                     })
              .ok());
  ScriptedWorker compiler(target, CompileHello("compile-2"));
  REQUIRE(compiler.Read().has_welcome());
  const v1::Lease again = NextLease(&compiler);
  CHECK(again.evaluation_id() == id);
  CHECK(again.attempt() == 2);
}

TEST_CASE("pike-coordinator: wrong usage is status 2, help is status 0", "[coordinator]") {
  const TempFolder folder = TempFolder::Create("pike-coordinator").value();
  CHECK(Process(folder.path(), {"--help"}).Wait() == 0);
  CHECK(Process(folder.path(), {"--no-such-flag"}).Wait() == 2);
  CHECK(Process(folder.path(), {"--listen", "0.0.0.0:50051"}).Wait() == 2);
  CHECK(Process(folder.path(), {"--heartbeat-ms", "0"}).Wait() == 2);
}

}  // namespace
}  // namespace pike::coordinator
