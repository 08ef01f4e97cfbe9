#pragma once

#include <cstddef>
#include <utility>
#include <variant>

#include "common/base/mailbox.h"
#include "coordinator/core/event.h"
#include "coordinator/store/store.h"
#include "pike/v1/task.pb.h"

namespace pike::coordinator {

// A task to be recorded, unless its version is there already.
struct TaskOffered {
  RequestId request;
  v1::TaskRecord task;
};

// A finished build to be recorded if the core allows it.
struct ArtifactOffered {
  ArtifactPublished event;
  ArtifactRow row;
};

// Questions that only the loop can answer.
struct WorkersAsked {
  RequestId request;
};
struct LoadAsked {
  RequestId request;
};

// What reaches the loop from other threads.
using LoopEvent = std::variant<Event, TaskOffered, ArtifactOffered, WorkersAsked, LoadAsked>;

// The loop's mailbox. A quarter of it is kept for workers, so that clients that flood it cannot
// make leases expire. Thread-safe.
class LoopMailbox {
 public:
  explicit LoopMailbox(size_t capacity)
      : mailbox_(capacity), client_max_(capacity - capacity / 4) {}

  // False, leaving `event` alone: too much waits; the caller answers RESOURCE_EXHAUSTED.
  bool TryPushClient(LoopEvent&& event) {
    return mailbox_.Size() < client_max_ && mailbox_.TryPush(std::move(event));
  }
  // False, leaving `event` alone: full; the stream stops reading until there is room.
  bool TryPushWorker(LoopEvent&& event) { return mailbox_.TryPush(std::move(event)); }

  Mailbox<LoopEvent>& mailbox() { return mailbox_; }

 private:
  Mailbox<LoopEvent> mailbox_;
  const size_t client_max_;
};

}  // namespace pike::coordinator
