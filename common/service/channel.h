#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace grpc {
class Channel;
class ServerBuilder;
}  // namespace grpc

namespace pike::service {

// Messages up to this size are received, so that our own, smaller limits can answer with our own
// text.
inline constexpr int kMessageBytesMax = 16 << 20;
// Largest chunk of a blob on the wire.
inline constexpr size_t kBlobChunkBytesMax = 1 << 20;
// Largest task or candidate source.
inline constexpr size_t kSourceBytesMax = 1 << 20;

// A channel to `target` ("unix:/path/pike.sock", "127.0.0.1:port") with our limits. Connects when
// first used and again whenever it is needed: quick calls to a service that is not up fail with
// Unavailable. Thread-safe.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target);

// Sets our message limits on a server.
void ApplyServerLimits(grpc::ServerBuilder* builder);

}  // namespace pike::service
