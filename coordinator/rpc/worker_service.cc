#include "coordinator/rpc/worker_service.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "coordinator/rpc/convert.h"

namespace pike::coordinator {
namespace {

// A worker with all of its slots busy is sent a few messages per slot; one that reads none of this
// many is stuck.
constexpr size_t kUnsentMax = 4096;

// Owned by itself from Start until gRPC's OnDone. gRPC runs one reaction of each kind at a time,
// on its own threads.
class WorkerStream final
    : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>,
      public WorkerConnection,
      public std::enable_shared_from_this<WorkerStream> {
 public:
  explicit WorkerStream(const ServiceContext& context)
      : context_(context), session_(SessionTable::NewSessionId()) {}

  void Start() {
    self_ = shared_from_this();
    if (!context_.sessions->Add(session_, self_))
      return Close(absl::UnavailableError("the coordinator is stopping; connect again later"));
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok)
      return Close(absl::OkStatus());
    absl::StatusOr<Event> event = ToEvent();
    if (!event.ok())
      return Refuse(event.status());
    if (context_.sessions->Deliver(*std::move(event), self_))
      ResumeReading();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    is_writing_ = false;
    if (!ok) {
      unsent_.clear();
      final_status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the worker is gone");
    }
    WriteNext();
  }

  void OnCancel() override {
    MutexLock lock(&mutex_);
    unsent_.clear();
    final_status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the worker is gone");
    WriteNext();
  }

  void OnDone() override {
    context_.sessions->Remove(session_);
    if (is_introduced_)
      context_.sessions->Deliver(Event(WorkerDisconnected{session_}), nullptr);
    const std::shared_ptr<WorkerStream> last = std::move(self_);
  }

  void Send(v1::CoordinatorMessage message) override {
    MutexLock lock(&mutex_);
    if (is_finished_ || final_status_.has_value())
      return;
    if (unsent_.size() >= kUnsentMax) {
      unsent_.clear();
      final_status_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                   "the worker does not read its stream; connect again");
    } else {
      unsent_.push_back(std::move(message));
    }
    WriteNext();
  }

  void Close(const absl::Status& status) override {
    MutexLock lock(&mutex_);
    if (!final_status_.has_value())
      final_status_ = service::ToGrpcStatus(status);
    WriteNext();
  }

  void ResumeReading() override {
    MutexLock lock(&mutex_);
    if (!is_finished_)
      StartRead(&incoming_);
  }

 private:
  absl::StatusOr<Event> ToEvent() {
    if (is_introduced_)
      return FromWorker(session_, toolchain_digest_, incoming_);
    if (!incoming_.has_hello())
      return absl::InvalidArgumentError("the first message of a session must be Hello");
    absl::StatusOr<WorkerConnected> event = FromHello(session_, incoming_.hello());
    if (!event.ok())
      return event.status();
    is_introduced_ = true;
    toolchain_digest_ = event->worker.toolchain_digest;
    return Event(*std::move(event));
  }

  // A bad Hello ends the stream; a bad later message is one worker's slip and only skipped, so that
  // its leases and results survive.
  void Refuse(const absl::Status& status) {
    if (is_introduced_) {
      LogWarning(absl::StrCat("worker session ", session_.value,
                              ": message skipped: ", std::string(status.message())));
      AcknowledgeForeignResult();
      return ResumeReading();
    }
    Send(ToProto(SendRefused{.session = session_, .reason = std::string(status.message())}));
    Close(status);
  }

  // A result for a lease that we cannot have given would be repeated for ever.
  void AcknowledgeForeignResult() {
    if (!incoming_.has_lease_result())
      return;
    v1::CoordinatorMessage message;
    message.mutable_result_ack()->set_lease_id(incoming_.lease_result().lease_id());
    message.mutable_result_ack()->set_attempt(incoming_.lease_result().attempt());
    Send(std::move(message));
  }

  // Starts the next write, or the end if all is sent. One write at a time: gRPC aborts otherwise.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_writing_ || is_finished_)
      return;
    if (!unsent_.empty()) {
      is_writing_ = true;
      outgoing_ = std::move(unsent_.front());
      unsent_.pop_front();
      return StartWrite(&outgoing_);
    }
    if (!final_status_.has_value())
      return;
    is_finished_ = true;
    Finish(*final_status_);
  }

  const ServiceContext context_;
  const SessionId session_;
  std::shared_ptr<WorkerStream> self_;
  v1::WorkerMessage incoming_;  // of the one read in progress
  // Of the one read in progress, then of OnDone.
  bool is_introduced_ = false;
  std::string toolchain_digest_;
  v1::CoordinatorMessage outgoing_;  // of the one write in progress

  Mutex mutex_;
  std::deque<v1::CoordinatorMessage> unsent_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* WorkerService::Session(
    grpc::CallbackServerContext* /*server_context*/) {
  const auto stream = std::make_shared<WorkerStream>(context_);
  stream->Start();
  return stream.get();
}

}  // namespace pike::coordinator
