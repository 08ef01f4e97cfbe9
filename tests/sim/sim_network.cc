#include "tests/sim/sim_network.h"

#include <algorithm>
#include <memory>
#include <string>

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/wire.h"
#include "tests/sim/world.h"

namespace pike::coordinator::sim {

void SimNetwork::Connect(SimWorker* worker) {
  auto stream = std::make_shared<Stream>();
  stream->session = {"s" + std::to_string(++streams_made_)};
  stream->worker = worker;
  stream->last_to_coordinator = stream->last_to_worker = world_.loop().now();
  by_worker_[worker] = stream;
  world_.loop().At(Arrival(&stream->last_to_worker), [this, stream] {
    if (by_worker_[stream->worker] != stream || !stream->is_open_at_worker)
      return;
    if (!world_.coordinator().is_up())
      return EndAtWorker(stream);
    by_session_[stream->session] = stream;
    stream->worker->OnConnected();
  });
}

void SimNetwork::ToCoordinator(SimWorker* worker, const v1::WorkerMessage& message) {
  const StreamPtr stream = by_worker_[worker];
  if (stream == nullptr || !stream->is_open_at_worker)
    return;
  const FaultMix& faults = world_.faults();
  if (world_.random().Chance(faults.message_lost))
    return;
  const int copies = world_.random().Chance(faults.message_repeated) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const MonoTime at = Arrival(&stream->last_to_coordinator);
    world_.loop().At(at, [this, stream, message] { Deliver(stream, message); });
  }
}

void SimNetwork::Deliver(const StreamPtr& stream, const v1::WorkerMessage& message) {
  if (!stream->is_open_at_coordinator || !world_.coordinator().is_up())
    return;
  if (!stream->has_said_hello && !message.has_hello()) {
    // Hello was lost or overtaken: a stream that does not begin with it is refused.
    EndAtCoordinator(stream);
    return;
  }
  stream->has_said_hello = true;
  if (auto event = EventOf(message, stream->session))
    world_.coordinator().Post(std::move(*event));
}

void SimNetwork::CloseByWorker(SimWorker* worker, bool is_half_open) {
  const StreamPtr stream = by_worker_[worker];
  if (stream == nullptr)
    return;
  stream->is_open_at_worker = false;
  by_worker_.erase(worker);
  if (!is_half_open) {
    const MonoTime at = Arrival(&stream->last_to_coordinator);
    world_.loop().At(at, [this, stream] { EndAtCoordinator(stream); });
  }
}

void SimNetwork::Break(SimWorker* worker, bool is_half_open) {
  const StreamPtr stream = by_worker_[worker];
  if (stream == nullptr)
    return;
  EndAtWorker(stream);
  if (!is_half_open) {
    world_.loop().After(world_.Latency(), [this, stream] { EndAtCoordinator(stream); });
  } else {
    by_session_.erase(stream->session);  // what the coordinator sends is lost
  }
}

void SimNetwork::ToWorker(const SessionId& session, const v1::CoordinatorMessage& message) {
  const auto found = by_session_.find(session);
  if (found == by_session_.end())
    return;
  const StreamPtr stream = found->second;
  const FaultMix& faults = world_.faults();
  if (world_.random().Chance(faults.message_lost))
    return;
  const int copies = world_.random().Chance(faults.message_repeated) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    world_.loop().At(Arrival(&stream->last_to_worker), [this, stream, message] {
      if (stream->is_open_at_worker && by_worker_[stream->worker] == stream)
        stream->worker->OnMessage(message);
    });
  }
}

void SimNetwork::CloseByCoordinator(const SessionId& session) {
  const auto found = by_session_.find(session);
  if (found == by_session_.end())
    return;
  const StreamPtr stream = found->second;
  stream->is_open_at_coordinator = false;
  by_session_.erase(found);
  world_.loop().At(Arrival(&stream->last_to_worker), [this, stream] { EndAtWorker(stream); });
}

void SimNetwork::LoseCoordinator() {
  for (const auto& [session, stream] : by_session_) {
    stream->is_open_at_coordinator = false;
    const StreamPtr kept = stream;
    world_.loop().After(world_.random().Span(0, 200), [this, kept] { EndAtWorker(kept); });
  }
  by_session_.clear();
}

void SimNetwork::EndAtCoordinator(const StreamPtr& stream) {
  if (!stream->is_open_at_coordinator)
    return;
  stream->is_open_at_coordinator = false;
  by_session_.erase(stream->session);
  if (world_.coordinator().is_up())
    world_.coordinator().Post(WorkerDisconnected{stream->session});
  world_.loop().After(world_.Latency(), [this, stream] { EndAtWorker(stream); });
}

void SimNetwork::EndAtWorker(const StreamPtr& stream) {
  if (!stream->is_open_at_worker || by_worker_[stream->worker] != stream)
    return;
  stream->is_open_at_worker = false;
  by_worker_.erase(stream->worker);
  stream->worker->OnDisconnected();
}

MonoTime SimNetwork::Arrival(MonoTime* last) {
  const MonoTime at = world_.loop().now() + world_.Latency();
  if (world_.random().Chance(world_.faults().message_overtakes))
    return at;
  *last = std::max(*last, at);
  return *last;
}

}  // namespace pike::coordinator::sim
