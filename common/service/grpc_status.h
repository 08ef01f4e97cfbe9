#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

namespace pike::service {

// The one conversion each way. Codes are equal by number in both libraries. Messages are made
// printable and cut at 1 KiB: they travel in a header.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace pike::service
