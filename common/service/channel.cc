#include "common/service/channel.h"

#include <grpcpp/grpcpp.h>

namespace pike::service {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  // A restarted service is found again within a second; gRPC's own pauses grow to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // Never through a proxy from the environment: targets are local or the cluster's own.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Channels of one process do not share a broken connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

void ApplyServerLimits(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kMessageBytesMax);
  builder->SetMaxSendMessageSize(kMessageBytesMax);
}

}  // namespace pike::service
