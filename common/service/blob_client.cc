#include "common/service/blob_client.h"

#include <sys/stat.h>
#include <utime.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <grpcpp/grpcpp.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/service/channel.h"
#include "common/service/grpc_status.h"
#include "common/service/runtime_dir.h"
#include "pike/v1/blob.grpc.pb.h"

namespace pike::service {
namespace {

void SetDeadline(grpc::ClientContext* context, int64_t timeout_ms) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
}

// Removes the least recently used files until the rest fits.
void Evict(const std::string& folder, uint64_t bytes_max) {
  namespace fs = std::filesystem;
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored)) {
    const uint64_t bytes = file.file_size(ignored);
    if (ignored)
      continue;
    entries.push_back({file.last_write_time(ignored), bytes, file.path()});
    total += bytes;
  }
  if (total <= bytes_max)
    return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= bytes_max)
      return;
    fs::remove(entry.path, ignored);
    total -= entry.bytes;
  }
}

}  // namespace

BlobClient::BlobClient(std::shared_ptr<grpc::Channel> channel, BlobClientOptions options)
    : channel_(std::move(channel)), options_(std::move(options)) {
  if (options_.cache_dir.empty())
    return;
  const absl::Status made = MakeFolders(options_.cache_dir, 0700);
  if (!made.ok())
    LogWarning(absl::StrCat("no blob cache: ", made.ToString()));
}

absl::StatusOr<std::string> BlobClient::Read(const std::string& sha256) {
  if (!IsSha256Hex(sha256))
    return absl::InvalidArgumentError(absl::StrCat("malformed digest ", sha256.substr(0, 80)));
  if (!options_.cache_dir.empty()) {
    const std::string path = options_.cache_dir + "/" + sha256;
    absl::StatusOr<std::string> kept = ReadFile(path, options_.blob_bytes_max);
    if (kept.ok() && Sha256Hex(*kept) == sha256) {
      ::utime(path.c_str(), nullptr);  // used now
      return kept;
    }
  }
  absl::StatusOr<std::string> bytes = ReadRemote(sha256);
  if (bytes.ok())
    Keep(sha256, *bytes);
  return bytes;
}

absl::StatusOr<std::string> BlobClient::ReadRemote(const std::string& sha256) {
  const auto stub = v1::Blob::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context, options_.call_timeout_ms);
  v1::ReadBlobRequest request;
  request.set_sha256(sha256);
  const auto reader = stub->Read(&context, request);
  std::string bytes;
  v1::ReadBlobResponse part;
  bool is_too_large = false;
  while (reader->Read(&part)) {
    is_too_large = is_too_large || bytes.size() + part.chunk().size() > options_.blob_bytes_max;
    if (is_too_large)
      context.TryCancel();
    else
      bytes += part.chunk();
  }
  const grpc::Status status = reader->Finish();
  if (is_too_large)
    return absl::ResourceExhaustedError(absl::StrCat("blob ", sha256, " is too large"));
  if (!status.ok())
    return FromGrpcStatus(status);
  if (Sha256Hex(bytes) != sha256)
    return absl::DataLossError(absl::StrCat("blob ", sha256, " arrived with other bytes"));
  return bytes;
}

absl::StatusOr<std::string> BlobClient::Write(absl::string_view bytes) {
  if (bytes.size() > options_.blob_bytes_max)
    return absl::ResourceExhaustedError(absl::StrCat("a blob of ", bytes.size(), " bytes"));
  std::string sha256 = Sha256Hex(bytes);
  const auto stub = v1::Blob::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context, options_.call_timeout_ms);
  v1::WriteBlobResponse response;
  const auto writer = stub->Write(&context, &response);
  size_t sent = 0;
  do {
    const absl::string_view chunk = bytes.substr(sent, kBlobChunkBytesMax);
    v1::WriteBlobRequest part;
    if (sent == 0)
      part.set_sha256(sha256);
    part.set_chunk(chunk.data(), chunk.size());
    sent += chunk.size();
    if (!writer->Write(part))
      break;  // the status says why; a service that has the blob already may end the call early
  } while (sent < bytes.size());
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok())
    return FromGrpcStatus(status);
  return sha256;
}

void BlobClient::Keep(const std::string& sha256, absl::string_view bytes) {
  if (options_.cache_dir.empty())
    return;
  MutexLock lock(&cache_mutex_);
  const absl::Status written =
      WriteFileAtomic(absl::StrCat(options_.cache_dir, "/", sha256), bytes, 0600);
  if (!written.ok())
    LogWarning(absl::StrCat("blob cache: ", written.ToString()));
  Evict(options_.cache_dir, options_.cache_bytes_max);
}

}  // namespace pike::service
