#include "coordinator/rpc/blob_service.h"

#include <optional>
#include <string>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"
#include "common/service/channel.h"

namespace pike::coordinator {
namespace {

// Takes a blob chunk by chunk: the next one is read once the last is on disk. Deleted by OnDone.
class WriteStream final : public grpc::ServerReadReactor<v1::WriteBlobRequest> {
 public:
  WriteStream(const ServiceContext& context, v1::WriteBlobResponse* response)
      : context_(context), response_(response) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!context_.pool->TryRun([this, ok] { ok ? TakeChunk() : TakeEnd(); }))
      Finish(service::ToGrpcStatus(BusyError()));
  }

  void OnDone() override { delete this; }

 private:
  void TakeChunk() {
    const absl::Status status = KeepChunk();
    if (!status.ok())
      return Finish(service::ToGrpcStatus(status));
    StartRead(&incoming_);
  }

  absl::Status KeepChunk() {
    if (incoming_.chunk().size() > service::kBlobChunkBytesMax)
      return absl::InvalidArgumentError(absl::StrCat("a chunk has ", incoming_.chunk().size(),
                                                     " bytes; at most ",
                                                     service::kBlobChunkBytesMax));
    if (!writer_.has_value()) {
      ASSIGN_OR_RETURN(BlobWriter writer, context_.blobs->NewWriter(incoming_.sha256()));
      writer_.emplace(std::move(writer));
    }
    return writer_->Write(incoming_.chunk());
  }

  void TakeEnd() {
    if (!writer_.has_value())
      return Finish(service::ToGrpcStatus(
          absl::InvalidArgumentError("no chunk came; the first one names the digest")));
    const absl::Status status = writer_->Finish();
    response_->set_size_bytes(writer_->size_bytes());
    Finish(service::ToGrpcStatus(status));
  }

  const ServiceContext context_;
  v1::WriteBlobResponse* const response_;
  v1::WriteBlobRequest incoming_;
  std::optional<BlobWriter> writer_;
};

// Sends a blob chunk by chunk: the next one is read once the last is sent. Deleted by OnDone.
class ReadStream final : public grpc::ServerWriteReactor<v1::ReadBlobResponse> {
 public:
  ReadStream(const ServiceContext& context, std::string sha256)
      : context_(context), sha256_(std::move(sha256)) {
    Continue();
  }

  void OnWriteDone(bool ok) override {
    if (ok)
      Continue();
    else
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the reader is gone"));
  }

  void OnDone() override { delete this; }

 private:
  void Continue() {
    if (!context_.pool->TryRun([this] { SendChunk(); }))
      Finish(service::ToGrpcStatus(BusyError()));
  }

  void SendChunk() {
    const absl::StatusOr<bool> has_chunk = Load();
    if (has_chunk.ok() && *has_chunk)
      StartWrite(&outgoing_);
    else
      Finish(service::ToGrpcStatus(has_chunk.status()));
  }

  // False at the end. The first chunk is sent even if it is empty: it has the size.
  absl::StatusOr<bool> Load() {
    const bool is_first = !reader_.has_value();
    outgoing_.Clear();
    if (is_first) {
      ASSIGN_OR_RETURN(BlobReader reader, context_.blobs->NewReader(sha256_));
      reader_.emplace(std::move(reader));
      outgoing_.set_size_bytes(reader_->size_bytes());
    }
    ASSIGN_OR_RETURN(*outgoing_.mutable_chunk(), reader_->Read(service::kBlobChunkBytesMax));
    return is_first || !outgoing_.chunk().empty();
  }

  const ServiceContext context_;
  const std::string sha256_;
  v1::ReadBlobResponse outgoing_;
  std::optional<BlobReader> reader_;
};

}  // namespace

// Reactors are handed to gRPC, which says with OnDone when they may be deleted.
grpc::ServerReadReactor<v1::WriteBlobRequest>* BlobService::Write(
    grpc::CallbackServerContext* /*server_context*/, v1::WriteBlobResponse* response) {
  return new WriteStream(context_, response);
}

grpc::ServerWriteReactor<v1::ReadBlobResponse>* BlobService::Read(
    grpc::CallbackServerContext* /*server_context*/, const v1::ReadBlobRequest* request) {
  return new ReadStream(context_, request->sha256());
}

}  // namespace pike::coordinator
