#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>

#include "common/base/mutex.h"
#include "coordinator/core/types.h"
#include "coordinator/rpc/loop_event.h"
#include "pike/v1/worker.pb.h"

namespace pike::coordinator {

// One worker's stream as the loop and the table see it. Thread-safe; calls never block.
class WorkerConnection {
 public:
  virtual ~WorkerConnection() = default;
  // Queues a message. A worker that does not read until its queue is full is disconnected.
  virtual void Send(v1::CoordinatorMessage message) = 0;
  // Ends the stream with `status` once queued messages are sent.
  virtual void Close(const absl::Status& status) = 0;
  // Reads on after the mailbox was full.
  virtual void ResumeReading() = 0;
};

// The sessions of connected workers, and the way of their events to the loop. Thread-safe.
class SessionTable {
 public:
  // `mailbox` must outlive the table.
  explicit SessionTable(LoopMailbox* mailbox) : mailbox_(mailbox) {}

  // An id that was never used before and cannot be guessed.
  static SessionId NewSessionId();

  // False: the table is closed.
  bool Add(const SessionId& session, const std::shared_ptr<WorkerConnection>& connection);
  void Remove(const SessionId& session);

  // True: delivered, read on. False: the mailbox is full; the event waits here, behind those that
  // came before it, and ResumeReading is called once it is delivered. `connection` may be null.
  bool Deliver(LoopEvent event, const std::shared_ptr<WorkerConnection>& connection);
  // For the loop, after it took events out of the mailbox.
  void DeliverWaiting();

  // For the loop: messages to a session that is gone are dropped. A Welcome opens the session.
  void Send(const SessionId& session, v1::CoordinatorMessage message);
  void Close(const SessionId& session, const absl::Status& status);
  void CloseAll(const absl::Status& status);

  // Whether the session was welcomed and is connected.
  bool IsOpen(const SessionId& session) const;

 private:
  struct Waiting {
    LoopEvent event;
    std::shared_ptr<WorkerConnection> connection;
  };
  std::shared_ptr<WorkerConnection> Find(const SessionId& session) const;

  LoopMailbox* const mailbox_;
  mutable Mutex mutex_;
  std::map<SessionId, std::shared_ptr<WorkerConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::set<SessionId> open_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;

  // Held while pushing, so that events keep their order; the mailbox's lock is a leaf.
  Mutex delivery_mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(delivery_mutex_);
};

}  // namespace pike::coordinator
