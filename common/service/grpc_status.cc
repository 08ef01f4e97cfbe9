#include "common/service/grpc_status.h"

#include <string>

#include <absl/strings/string_view.h>

#include "common/base/text.h"

namespace pike::service {
namespace {

constexpr size_t kMessageTextMax = 1024;

std::string Capped(absl::string_view message) {
  std::string text = EscapeLine(message.substr(0, kMessageTextMax));
  if (text.size() > kMessageTextMax)
    text.resize(kMessageTextMax);
  return text;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok())
    return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), Capped(status.message())};
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok())
    return absl::OkStatus();
  return {static_cast<absl::StatusCode>(status.error_code()), Capped(status.error_message())};
}

}  // namespace pike::service
