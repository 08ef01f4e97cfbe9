#include "cli/client/watch_set.h"

#include <algorithm>
#include <map>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "common/service/grpc_status.h"
#include "pike/v1/evaluation.grpc.pb.h"

namespace pike::cli {
namespace {

constexpr size_t kBatchMax = 256;

// One stream. Its address is the tag of its one pending operation: start, then reads until one
// fails, then finish.
struct Stream {
  enum class Pending { kStart, kRead, kFinish };

  size_t item = 0;
  Pending pending = Pending::kStart;
  grpc::ClientContext context;
  v1::WatchResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncReader<v1::WatchResponse>> reader;

  // Handles the completed operation and starts the next one.
  std::optional<WatchEvent> Step(bool is_ok) {
    if (pending == Pending::kFinish)
      return WatchEvent{item, std::nullopt, service::FromGrpcStatus(status)};
    std::optional<WatchEvent> event;
    if (pending == Pending::kRead && is_ok)
      event = WatchEvent{item, std::move(*response.mutable_evaluation()), std::nullopt};
    pending = is_ok ? Pending::kRead : Pending::kFinish;
    if (is_ok)
      reader->Read(&response, this);
    else
      reader->Finish(&status, this);
    return event;
  }
};

}  // namespace

struct WatchSet::Streams {
  explicit Streams(const std::shared_ptr<grpc::Channel>& channel) : stub(channel) {}

  void HandleOne(void* tag, bool is_ok, std::vector<WatchEvent>* events) {
    auto* stream = static_cast<Stream*>(tag);
    auto event = stream->Step(is_ok);
    if (!event.has_value())
      return;
    if (event->ended.has_value())
      open.erase(stream);
    events->push_back(*std::move(event));
  }

  v1::Evaluation::Stub stub;
  grpc::CompletionQueue queue;
  std::map<Stream*, std::unique_ptr<Stream>> open;
};

WatchSet::WatchSet(const std::shared_ptr<grpc::Channel>& channel)
    : streams_(std::make_unique<Streams>(channel)) {}

WatchSet::~WatchSet() {
  for (auto& [address, stream] : streams_->open)
    stream->context.TryCancel();
  std::vector<WatchEvent> ignored;
  void* tag = nullptr;
  bool is_ok = false;
  while (!streams_->open.empty() && streams_->queue.Next(&tag, &is_ok))
    streams_->HandleOne(tag, is_ok, &ignored);
  streams_->queue.Shutdown();
  while (streams_->queue.Next(&tag, &is_ok)) {
  }
}

void WatchSet::Start(size_t item, const std::string& evaluation_id) {
  auto stream = std::make_unique<Stream>();
  stream->item = item;
  v1::WatchRequest request;
  request.set_evaluation_id(evaluation_id);
  stream->reader = streams_->stub.PrepareAsyncWatch(&stream->context, request, &streams_->queue);
  Stream* address = stream.get();
  streams_->open.emplace(address, std::move(stream));
  address->reader->StartCall(address);
}

std::vector<WatchEvent> WatchSet::Take(MonoTime deadline) {
  std::vector<WatchEvent> events;
  void* tag = nullptr;
  bool is_ok = false;
  while (events.size() < kBatchMax) {
    const MonoTime::duration wait = events.empty()
                                        ? std::max(deadline - MonoNow(), MonoTime::duration::zero())
                                        : MonoTime::duration::zero();
    const auto wall_deadline = std::chrono::system_clock::now() + wait;
    if (streams_->queue.AsyncNext(&tag, &is_ok, wall_deadline) != grpc::CompletionQueue::GOT_EVENT)
      break;
    streams_->HandleOne(tag, is_ok, &events);
  }
  return events;
}

}  // namespace pike::cli
