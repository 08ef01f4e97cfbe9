#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/service/worker_session.h"
#include "coordinator/core/types.h"
#include "pike/v1/worker.pb.h"

namespace pike::coordinator::sim {

class World;

// A machine whose worker process crashes, stalls and comes back under a new id. The process speaks
// by the real WorkerSession; its work takes random time and ends at random.
class SimWorker {
 public:
  SimWorker(World* world, const WorkerFacts& facts);

  void Start();
  void Crash();
  // Nothing of the process runs for `span`, as after SIGSTOP.
  void Stall(std::chrono::milliseconds span);
  void Drain();
  bool is_running() const { return session_.has_value(); }
  const WorkerId& id() const { return facts_.worker_id; }

  // From the network.
  void OnConnected();
  void OnDisconnected();
  void OnMessage(const v1::CoordinatorMessage& message);

 private:
  struct Task {
    v1::Lease lease;
    std::optional<uint64_t> build_request_id;  // it waits for this build
  };
  using Actions = service::WorkerSession::Actions;

  void Exit(int64_t pause_ms_max);
  // Runs `work` in this process: not after a crash, and after a stall.
  void Inside(uint64_t life, std::function<void()> work);
  void Later(std::chrono::milliseconds delay, std::function<void()> work);
  void Perform(const Actions& actions);
  void PerformOne(const service::SessionAction& action);
  void ScheduleTick();

  void StartTask(const v1::Lease& lease);
  // Later, if the task is still running then.
  void Continue(const service::LeaseKey& key, void (SimWorker::*step)(Task*));
  void FinishCompile(Task* task);
  void FinishBuild(Task* task);
  void Prepare(Task* task);
  void Verify(Task* task);
  void Measure(Task* task);
  void FinishRun(Task* task);
  // What this worker makes of a candidate.
  v1::VerdictKind KindFor(const v1::Lease& lease);
  void Fail(Task* task);
  void Finish(Task* task, v1::LeaseResult result);
  void TakeBuildReply(const v1::BuildReply& reply);

  World& world_;
  const std::string name_;
  WorkerFacts facts_;
  std::optional<service::WorkerSession> session_;
  std::map<service::LeaseKey, Task> tasks_;
  uint64_t life_ = 0;
  uint64_t build_requests_ = 0;
  MonoTime stalled_until_;
  std::optional<MonoTime> lies_from_;
  std::optional<MonoTime> next_tick_;
};

}  // namespace pike::coordinator::sim
