#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/mutex.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace pike::service {

struct BlobClientOptions {
  std::string cache_dir;                         // empty: nothing is kept
  uint64_t cache_bytes_max = uint64_t{2} << 30;  // least recently used files beyond it are removed
  uint64_t blob_bytes_max = uint64_t{512} << 20;
  int64_t call_timeout_ms = 60'000;
};

// Bytes by SHA-256, from the coordinator's Blob service or a local cache folder. What is returned
// always has the digest asked for: a damaged cache file is fetched again, and a service that sends
// other bytes is DataLoss. Blocking. Thread-safe.
class BlobClient {
 public:
  BlobClient(std::shared_ptr<grpc::Channel> channel, BlobClientOptions options);

  // NotFound: no such blob. InvalidArgument: malformed digest. Unavailable: no service.
  absl::StatusOr<std::string> Read(const std::string& sha256);

  // Stores bytes and returns their digest. Repeating it is harmless.
  absl::StatusOr<std::string> Write(absl::string_view bytes);

 private:
  absl::StatusOr<std::string> ReadRemote(const std::string& sha256);
  void Keep(const std::string& sha256, absl::string_view bytes);

  const std::shared_ptr<grpc::Channel> channel_;
  const BlobClientOptions options_;
  Mutex cache_mutex_;  // serialises eviction only; files are written atomically
};

}  // namespace pike::service
