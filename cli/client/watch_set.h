#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "common/base/clock.h"
#include "pike/v1/evaluation.pb.h"

namespace grpc {
class Channel;
}

namespace pike::cli {

// A change of a watched evaluation, or the end of its watch: exactly one of the two is set.
struct WatchEvent {
  size_t item = 0;
  std::optional<v1::EvaluationRecord> record;
  std::optional<absl::Status> ended;
};

// Open Evaluation.Watch streams. Each is read only as fast as Take is called, so nothing piles up
// here. Not thread-safe: owned by one loop. The destructor cancels the open streams.
class WatchSet {
 public:
  explicit WatchSet(const std::shared_ptr<grpc::Channel>& channel);
  ~WatchSet();
  WatchSet(const WatchSet&) = delete;
  WatchSet& operator=(const WatchSet&) = delete;

  // Opens a stream. Its last event has `ended` set.
  void Start(size_t item, const std::string& evaluation_id);
  // Waits until something happened or `deadline` has passed; returns what has happened by then.
  std::vector<WatchEvent> Take(MonoTime deadline);

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

}  // namespace pike::cli
