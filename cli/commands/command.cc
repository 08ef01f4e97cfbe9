#include "cli/commands/command.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/console.h"
#include "cli/record_text.h"
#include "common/base/clock.h"
#include "common/service/runtime_dir.h"

namespace pike::cli {
namespace {

using std::chrono::milliseconds;

// One attempt lasts this long: the endpoint file may name a socket of yesterday, and `pike up` may
// be about to write another.
constexpr milliseconds kAttempt{500};
// What takes longer than this is worth a line.
constexpr milliseconds kPatience{1'000};

absl::StatusOr<std::unique_ptr<ServiceClient>> TryConnect(const GlobalOptions& globals,
                                                          MonoTime give_up_at) {
  const absl::StatusOr<std::string> target =
      service::FindService(globals.service, globals.runtime_dir);
  // Whatever keeps the service from being found, for the user it is not reachable.
  if (!target.ok())
    return absl::UnavailableError(target.status().message());
  auto client = std::make_unique<ServiceClient>(*target);
  const auto left = std::chrono::duration_cast<milliseconds>(give_up_at - MonoNow());
  const absl::Status status =
      client->WaitUntilReachable(std::clamp(left, milliseconds(0), kAttempt));
  if (!status.ok())
    return status;
  return client;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceClient>> Connect(const GlobalOptions& globals) {
  const MonoTime started_at = MonoNow();
  const MonoTime give_up_at = started_at + std::chrono::seconds(globals.wait_s);
  bool has_spoken = false;
  while (true) {
    const MonoTime attempt_at = MonoNow();
    auto client = TryConnect(globals, std::max(give_up_at, attempt_at + kAttempt));
    const MonoTime now = MonoNow();
    if (client.ok() || now >= give_up_at)
      return client;
    if (!has_spoken && now >= started_at + kPatience) {
      has_spoken = true;
      PrintError("waiting for the service");
    }
    std::this_thread::sleep_until(std::min(attempt_at + kAttempt, give_up_at));
  }
}

ExitCode ReportFailure(const absl::Status& status) {
  PrintError(status.message());
  if (IsUnreachable(status))
    return ExitCode::kUnreachable;
  return absl::IsInvalidArgument(status) ? ExitCode::kUsage : ExitCode::kFailure;
}

absl::Status PrintJsonLine(const google::protobuf::Message& message) {
  const absl::StatusOr<std::string> json = ToJsonLine(message);
  if (json.ok())
    Console().PrintResult(*json + "\n");
  return json.status();
}

}  // namespace pike::cli
