#include "common/service/worker_client.h"

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <absl/strings/str_cat.h>
#include <grpcpp/grpcpp.h>

#include "common/base/log.h"
#include "common/base/mailbox.h"
#include "common/base/mutex.h"
#include "pike/v1/worker.grpc.pb.h"

namespace pike::service {
namespace {

constexpr size_t kMailboxCapacity = 1024;
constexpr size_t kBatchMax = 64;
// The loop looks at its deadlines at least this often.
constexpr std::chrono::seconds kIdleWait{5};
constexpr std::chrono::milliseconds kReaderWait{20};

// One connection. The reader thread reads until the stream ends; the loop writes.
struct Stream {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> calls;
  std::atomic<bool> is_read_out{false};  // the reader posts nothing more
  std::jthread reader;
};

struct MessageRead {
  uint64_t generation = 0;
  v1::CoordinatorMessage message;
};
struct StreamBroken {
  uint64_t generation = 0;
};
struct LeaseFinished {
  v1::LeaseResult result;
};
struct StageSet {
  LeaseKey key;
  v1::Stage stage = v1::STAGE_UNSPECIFIED;
};
struct DrainAsked {
  std::string reason;
};
struct AbandonAsked {
  std::string reason;
};
struct BuildAsked {
  v1::BuildRequest request;
};
using LoopEvent = std::variant<MessageRead, StreamBroken, LeaseFinished, StageSet, DrainAsked,
                               AbandonAsked, BuildAsked>;

}  // namespace

class WorkerClient::Loop {
 public:
  Loop(std::shared_ptr<grpc::Channel> channel, SessionOptions options, WorkerCallbacks callbacks)
      : stub_(v1::Worker::NewStub(channel)),
        callbacks_(std::move(callbacks)),
        session_(std::move(options)),
        mailbox_(kMailboxCapacity) {}

  ~Loop() { Stop(); }

  void Start() {
    thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
  }

  void Stop() {
    thread_.request_stop();
    mailbox_.Close();
    {
      // A write that waits for a stopped peer ends with its stream.
      MutexLock lock(&mutex_);
      if (stream_context_ != nullptr)
        stream_context_->TryCancel();
    }
    if (thread_.joinable())
      thread_.join();
    MutexLock lock(&mutex_);
    is_ended_ = true;
    changed_.NotifyAll();
  }

  void Post(LoopEvent event) {
    // A callback may post while the mailbox is full: nobody else would empty it.
    if (std::this_thread::get_id() == loop_id_.load())
      deferred_.push_back(std::move(event));
    else
      mailbox_.Push(std::move(event));
  }

  absl::StatusOr<v1::BuildReply> RequestBuild(v1::BuildRequest request, MonoTime deadline) {
    uint64_t id = 0;
    {
      MutexLock lock(&mutex_);
      id = ++last_request_id_;
      builds_[id] = std::nullopt;
    }
    request.set_request_id(id);
    Post(BuildAsked{std::move(request)});
    MutexLock lock(&mutex_);
    while (builds_.contains(id) && !builds_[id] && !is_ended_) {
      if (!changed_.WaitUntil(&mutex_, deadline)) {
        builds_.erase(id);
        return absl::DeadlineExceededError("no reply to the build request");
      }
    }
    const auto found = builds_.find(id);
    if (found == builds_.end() || !found->second)
      return absl::UnavailableError("the session with the coordinator broke");
    v1::BuildReply reply = std::move(*found->second);
    builds_.erase(found);
    return reply;
  }

  std::string session_id() const {
    MutexLock lock(&mutex_);
    return session_id_;
  }

  absl::Status end_status() const {
    MutexLock lock(&mutex_);
    return end_status_;
  }

  bool WaitUntilEnded(MonoTime deadline) const {
    MutexLock lock(&mutex_);
    while (!is_ended_) {
      if (!changed_.WaitUntil(&mutex_, deadline))
        return is_ended_;
    }
    return true;
  }

 private:
  void Run(std::stop_token stop) {
    loop_id_ = std::this_thread::get_id();
    stop_ = std::move(stop);
    Carry(session_.Start(MonoNow()));
    while (!stop_.stop_requested() && !session_.is_ended()) {
      MonoTime wake = session_.NextDeadline().value_or(MonoNow() + kIdleWait);
      if (!deferred_.empty())
        wake = MonoNow();
      TakeEvents(wake);
      for (size_t left = deferred_.size(); left > 0; --left) {
        LoopEvent event = std::move(deferred_.front());
        deferred_.pop_front();
        std::visit([this](auto& value) { On(value); }, event);
      }
      Carry(session_.Tick(MonoNow()));
      Publish();
    }
    mailbox_.Close();  // a reader that waits for room gives up
    DropStream();
    FailBuilds();
    Publish();
  }

  void TakeEvents(MonoTime deadline) {
    for (LoopEvent& event : mailbox_.TakeBatch(kBatchMax, deadline))
      deferred_.push_back(std::move(event));
  }

  void On(MessageRead& read) {
    if (read.generation == generation_ && stream_)
      Carry(session_.OnMessage(read.message, MonoNow()));
  }
  void On(StreamBroken& broken) {
    if (broken.generation == generation_ && stream_)
      Break();
  }
  void On(LeaseFinished& finished) {
    Carry(session_.OnLeaseFinished(std::move(finished.result), MonoNow()));
  }
  void On(StageSet& set) { Carry(session_.OnStageChanged(set.key, set.stage, MonoNow())); }
  void On(DrainAsked& asked) { Carry(session_.Drain(asked.reason, MonoNow())); }
  void On(AbandonAsked& asked) { Carry(session_.Abandon(asked.reason, MonoNow())); }
  void On(BuildAsked& asked) {
    const uint64_t id = asked.request.request_id();
    WorkerSession::Actions actions;
    if (!session_.OnBuildRequested(std::move(asked.request), &actions)) {
      MutexLock lock(&mutex_);
      builds_.erase(id);
      changed_.NotifyAll();
    }
    Carry(std::move(actions));
  }

  void Carry(WorkerSession::Actions actions) {
    for (SessionAction& action : actions)
      std::visit([this](auto& value) { Do(value); }, action);
  }

  void Do(OpenStream&) {
    ++generation_;
    stream_ = std::make_unique<Stream>();
    {
      MutexLock lock(&mutex_);
      stream_context_ = &stream_->context;
    }
    stream_->calls = stub_->Session(&stream_->context);
    stream_->reader = std::jthread([this, stream = stream_.get(), generation = generation_] {
      MessageRead read;
      read.generation = generation;
      while (stream->calls->Read(&read.message)) {
        if (!mailbox_.Push(read))
          break;
      }
      mailbox_.Push(StreamBroken{generation});
      stream->is_read_out = true;
    });
    Carry(session_.OnConnected(MonoNow()));
  }
  void Do(CloseStream&) { DropStream(); }
  void Do(SendMessage& send) {
    if (!stream_ || is_write_broken_)
      return;
    // The reader notices a broken stream too and reports it, once.
    if (!stream_->calls->Write(send.message))
      is_write_broken_ = true;
  }
  void Do(StartLease& start) { callbacks_.on_lease(std::move(start.lease)); }
  void Do(StopLease& stop) { callbacks_.on_cancel(stop.key); }
  void Do(DeliverBuildReply& deliver) {
    MutexLock lock(&mutex_);
    const auto found = builds_.find(deliver.reply.request_id());
    if (found == builds_.end())
      return;
    found->second = std::move(deliver.reply);
    changed_.NotifyAll();
  }
  void Do(SessionEnded& ended) {
    const absl::Status status =
        ended.refusal.empty() ? absl::OkStatus() : absl::FailedPreconditionError(ended.refusal);
    {
      MutexLock lock(&mutex_);
      is_ended_ = true;
      end_status_ = status;
      changed_.NotifyAll();
    }
    if (callbacks_.on_ended)
      callbacks_.on_ended(status);
  }

  void Break() {
    DropStream();
    FailBuilds();
    Carry(session_.OnDisconnected(MonoNow()));
  }

  void DropStream() {
    if (!stream_)
      return;
    {
      MutexLock lock(&mutex_);
      stream_context_ = nullptr;
    }
    if (session_.is_ended() && !is_write_broken_)
      stream_->calls->WritesDone();
    stream_->context.TryCancel();
    // The reader may wait for room in the mailbox; what others posted must not be lost.
    while (!stream_->is_read_out)
      TakeEvents(MonoNow() + kReaderWait);
    stream_->reader.join();
    const grpc::Status status = stream_->calls->Finish();
    LogDisconnect(status);
    stream_.reset();
    is_write_broken_ = false;
  }

  void LogDisconnect(const grpc::Status& status) {
    if (session_.is_ended() || stop_.stop_requested())
      return;
    const std::string text = absl::StrCat("no session with the coordinator: ",
                                          status.ok() ? "closed by it" : status.error_message());
    // Once per kind of failure, not once per try.
    if (text != last_disconnect_)
      LogWarning(text);
    last_disconnect_ = text;
  }

  void FailBuilds() {
    MutexLock lock(&mutex_);
    builds_.clear();
    changed_.NotifyAll();
  }

  void Publish() {
    const std::string& id = session_.session_id();
    MutexLock lock(&mutex_);
    if (!id.empty() && id != session_id_) {
      LogInfo(absl::StrCat("session with the coordinator is open"));
      last_disconnect_.clear();
    }
    session_id_ = id;
  }

  const std::unique_ptr<v1::Worker::Stub> stub_;
  const WorkerCallbacks callbacks_;

  // Owned by the loop thread.
  WorkerSession session_;
  std::stop_token stop_;
  std::deque<LoopEvent>
      deferred_;  // taken from the mailbox, not handled yet; bounded by one batch or one drop
  uint64_t generation_ = 0;
  bool is_write_broken_ = false;
  std::string last_disconnect_;

  std::atomic<std::thread::id> loop_id_{};
  Mailbox<LoopEvent> mailbox_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  grpc::ClientContext* stream_context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::string session_id_ ABSL_GUARDED_BY(mutex_);
  bool is_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_request_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // Builds that are waited for; a value once the reply is there.
  std::map<uint64_t, std::optional<v1::BuildReply>> builds_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<Stream> stream_;  // used by the loop thread
  std::jthread thread_;             // last: joined first
};

WorkerClient::WorkerClient(std::shared_ptr<grpc::Channel> channel, SessionOptions options,
                           WorkerCallbacks callbacks)
    : loop_(std::make_unique<Loop>(std::move(channel), std::move(options), std::move(callbacks))) {}
WorkerClient::~WorkerClient() = default;

void WorkerClient::Start() {
  loop_->Start();
}
void WorkerClient::Finish(v1::LeaseResult result) {
  loop_->Post(LeaseFinished{std::move(result)});
}
void WorkerClient::SetStage(const LeaseKey& key, v1::Stage stage) {
  loop_->Post(StageSet{key, stage});
}
absl::StatusOr<v1::BuildReply> WorkerClient::RequestBuild(v1::BuildRequest request,
                                                          MonoTime deadline) {
  return loop_->RequestBuild(std::move(request), deadline);
}
std::string WorkerClient::session_id() const {
  return loop_->session_id();
}
void WorkerClient::Drain(const std::string& reason) {
  loop_->Post(DrainAsked{reason});
}
void WorkerClient::Abandon(const std::string& reason) {
  loop_->Post(AbandonAsked{reason});
}
bool WorkerClient::WaitUntilEnded(MonoTime deadline) const {
  return loop_->WaitUntilEnded(deadline);
}
absl::Status WorkerClient::end_status() const {
  return loop_->end_status();
}
void WorkerClient::Stop() {
  loop_->Stop();
}

}  // namespace pike::service
