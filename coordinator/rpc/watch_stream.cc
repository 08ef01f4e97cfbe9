#include "coordinator/rpc/watch_stream.h"

#include <memory>
#include <optional>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/mutex.h"

namespace pike::coordinator {
namespace {

// Owned by itself from Begin until gRPC's OnDone.
class WatchReactor final : public grpc::ServerWriteReactor<v1::WatchResponse>,
                           public EvaluationWatcher,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  WatchReactor(const ServiceContext& context, EvaluationId id) : context_(context), id_(id) {}

  void Begin() {
    self_ = shared_from_this();
    const absl::Status status = context_.board->Watch(id_, self_);
    if (absl::IsNotFound(status)) {
      if (!context_.pool->TryRun([self = self_] { self->ShowEnded(); }))
        Close(BusyError());
    } else if (!status.ok()) {
      Close(status);
    }
  }

  void BeginRefused(const absl::Status& status) {
    self_ = shared_from_this();
    Close(status);
  }

  void Show(const ShownEvaluation& shown) override {
    MutexLock lock(&mutex_);
    if (shown.version <= latest_.version)
      return;
    latest_ = shown;
    WriteNext();
  }

  void Close(const absl::Status& status) override {
    MutexLock lock(&mutex_);
    if (!final_status_.has_value())
      final_status_ = service::ToGrpcStatus(status);
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    is_writing_ = false;
    if (!ok)
      final_status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the watcher is gone");
    else if (outgoing_.evaluation().stage() == v1::STAGE_ENDED && !final_status_.has_value())
      final_status_ = grpc::Status::OK;
    WriteNext();
  }

  void OnCancel() override {
    MutexLock lock(&mutex_);
    written_version_ = latest_.version;
    final_status_ = grpc::Status(grpc::StatusCode::CANCELLED, "the watcher is gone");
    WriteNext();
  }

  void OnDone() override {
    context_.board->Unwatch(id_, this);
    const std::shared_ptr<WatchReactor> last = std::move(self_);
  }

 private:
  // It has ended, or never was.
  void ShowEnded() {
    const absl::StatusOr<EvaluationRow> row = context_.store->GetEvaluation(ToText(id_));
    if (absl::IsNotFound(row.status()))
      return Close(absl::NotFoundError(absl::StrCat("there is no evaluation ", ToText(id_))));
    if (!row.ok())
      return Close(row.status());
    auto record = std::make_shared<v1::EvaluationRecord>();
    if (!record->ParseFromString(row->record))
      return Close(absl::DataLossError(absl::StrCat(ToText(id_), " is damaged in the store")));
    Show({.version = 1, .record = std::move(record)});
  }

  // What was shown before the end is written before it. One write at a time.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (is_writing_ || is_finished_)
      return;
    const bool is_gone = final_status_.has_value() && !final_status_->ok();
    if (latest_.version > written_version_ && !is_gone) {
      is_writing_ = true;
      written_version_ = latest_.version;
      *outgoing_.mutable_evaluation() = *latest_.record;
      return StartWrite(&outgoing_);
    }
    if (!final_status_.has_value())
      return;
    is_finished_ = true;
    Finish(*final_status_);
  }

  const ServiceContext context_;
  const EvaluationId id_;
  std::shared_ptr<WatchReactor> self_;
  v1::WatchResponse outgoing_;  // of the one write in progress

  Mutex mutex_;
  ShownEvaluation latest_ ABSL_GUARDED_BY(mutex_);
  uint64_t written_version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<grpc::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchResponse>* WatchStream::Start(const ServiceContext& context,
                                                                EvaluationId id) {
  const auto reactor = std::make_shared<WatchReactor>(context, id);
  reactor->Begin();
  return reactor.get();
}

grpc::ServerWriteReactor<v1::WatchResponse>* WatchStream::Refuse(const ServiceContext& context,
                                                                 const absl::Status& status) {
  const auto reactor = std::make_shared<WatchReactor>(context, EvaluationId{});
  reactor->BeginRefused(status);
  return reactor.get();
}

}  // namespace pike::coordinator
