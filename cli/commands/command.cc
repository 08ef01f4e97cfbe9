#include "cli/commands/command.h"

#include "cli/console.h"
#include "common/service/runtime_dir.h"

namespace pike::cli {
namespace {

constexpr std::chrono::seconds kConnectTimeout{3};

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceClient>> Connect(const GlobalOptions& globals) {
  const absl::StatusOr<std::string> target =
      service::FindService(globals.service, globals.runtime_dir);
  // Whatever keeps the service from being found, for the user it is not reachable.
  if (!target.ok())
    return absl::UnavailableError(target.status().message());
  auto client = std::make_unique<ServiceClient>(*target);
  const absl::Status status = client->WaitUntilReachable(kConnectTimeout);
  if (!status.ok())
    return status;
  return client;
}

ExitCode ReportFailure(const absl::Status& status) {
  PrintError(status.message());
  if (IsUnreachable(status))
    return ExitCode::kUnreachable;
  return absl::IsInvalidArgument(status) ? ExitCode::kUsage : ExitCode::kFailure;
}

}  // namespace pike::cli
