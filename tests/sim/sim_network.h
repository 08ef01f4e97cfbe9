#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "coordinator/core/types.h"
#include "pike/v1/worker.pb.h"

namespace pike::coordinator::sim {

class SimWorker;
class World;

// Streams between workers and the coordinator. Each direction keeps its order, as gRPC does, unless
// faults make messages lost, repeated or overtaking.
class SimNetwork {
 public:
  explicit SimNetwork(World* world) : world_(*world) {}

  // A worker opens a stream; it is told of success or failure later.
  void Connect(SimWorker* worker);
  // From the worker's present stream.
  void ToCoordinator(SimWorker* worker, const v1::WorkerMessage& message);
  // The worker lets go of its stream. The coordinator is told, unless the connection is half open.
  void CloseByWorker(SimWorker* worker, bool is_half_open);
  // The stream breaks between them.
  void Break(SimWorker* worker, bool is_half_open);

  void ToWorker(const SessionId& session, const v1::CoordinatorMessage& message);
  void CloseByCoordinator(const SessionId& session);
  // The coordinator's process is gone, with its ends of all streams.
  void LoseCoordinator();

 private:
  struct Stream {
    SessionId session;
    SimWorker* worker = nullptr;
    bool is_open_at_worker = true;
    bool is_open_at_coordinator = true;
    bool has_said_hello = false;
    MonoTime last_to_coordinator;
    MonoTime last_to_worker;
  };
  using StreamPtr = std::shared_ptr<Stream>;

  void Deliver(const StreamPtr& stream, const v1::WorkerMessage& message);
  void EndAtCoordinator(const StreamPtr& stream);
  void EndAtWorker(const StreamPtr& stream);
  // When a message sent now arrives: after those before it.
  MonoTime Arrival(MonoTime* last);

  World& world_;
  uint64_t streams_made_ = 0;
  std::map<SimWorker*, StreamPtr> by_worker_;
  std::map<SessionId, StreamPtr> by_session_;
};

}  // namespace pike::coordinator::sim
