#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "coordinator/server/options.h"

namespace pike::coordinator {

// A running coordinator: store, loop and gRPC server.
// Threads: Start, Stop and destruction on one thread.
class Server {
 public:
  // Opens the store, recovers and serves. `on_loop_end` is called on the loop's thread when the
  // loop ends by itself, which only a failing store makes it do.
  // Errors are one line for the user.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options,
                                                       std::function<void()> on_loop_end);
  // Stops if it still runs.
  ~Server();

  // Refuses new calls, answers the waiting ones, leaves a snapshot and joins. Returns what ended
  // the loop, OK if it was this call.
  absl::Status Stop();

  // The target that clients use; a port that was 0 is filled in.
  const std::string& target() const;

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace pike::coordinator
