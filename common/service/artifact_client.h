#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace grpc {
class Channel;
}  // namespace grpc

namespace pike::service {

// The coordinator's durable index of finished builds. Calls name the worker's live session: without
// one they are Unavailable, and a worker goes on with its local cache. Blocking. Thread-safe.
class ArtifactClient {
 public:
  // `session_id` returns the live session's id, empty if there is none (WorkerClient::session_id).
  ArtifactClient(std::shared_ptr<grpc::Channel> channel, std::function<std::string()> session_id);

  // Digest of the artifact recorded for `key`; nothing if there is none.
  absl::StatusOr<std::optional<std::string>> Lookup(const std::string& key);

  // Records an artifact whose bytes are already a blob. Returns the artifact now recorded: the
  // first one published wins.
  absl::StatusOr<std::string> Publish(const std::string& key, const std::string& artifact_sha256,
                                      const std::string& toolchain_digest);

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::function<std::string()> session_id_;
};

}  // namespace pike::service
