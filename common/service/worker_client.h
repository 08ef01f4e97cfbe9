#pragma once

#include <functional>
#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/service/worker_session.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace pike::service {

// Called on the client's own thread: they must return at once (start a thread, push to a mailbox)
// and must not call Stop or the destructor. Calling Finish and SetStage from them is allowed.
struct WorkerCallbacks {
  std::function<void(v1::Lease)> on_lease;
  // Stop this lease soon; no result is wanted (a late Finish is ignored).
  std::function<void(const LeaseKey&)> on_cancel;
  // The session is over: OK after a drain, FailedPrecondition if the coordinator refused the
  // worker.
  std::function<void(absl::Status)> on_ended;
};

// Drives a WorkerSession over gRPC: connects (also before the coordinator is up) and connects again
// for as long as it lives. Two threads of its own: the loop owns the session and writes, the reader
// reads; a full mailbox stops reading, never loses. Thread-safe.
class WorkerClient {
 public:
  WorkerClient(std::shared_ptr<grpc::Channel> channel, SessionOptions options,
               WorkerCallbacks callbacks);
  // Stops at once: see Stop.
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  void Start();

  // Reports a lease's outcome; kept and repeated until the coordinator acknowledges it.
  void Finish(v1::LeaseResult result);
  // Says where a lease is now.
  void SetStage(const LeaseKey& key, v1::Stage stage);
  // Asks the coordinator to have an extension built, and waits. `request_id` is chosen here.
  // Unavailable: no session, or it broke meanwhile. DeadlineExceeded: no reply in time.
  absl::StatusOr<v1::BuildReply> RequestBuild(v1::BuildRequest request, MonoTime deadline);

  // Id of the open session, empty if there is none.
  std::string session_id() const;

  // Takes no more leases; on_ended comes once the held ones are reported.
  void Drain(const std::string& reason);
  // Cancels what runs (on_cancel) and hands it back for another worker.
  void Abandon(const std::string& reason);
  // Waits until the session has ended (drained or refused); false if `deadline` passed first.
  bool WaitUntilEnded(MonoTime deadline) const;
  // How the session ended: OK after a drain or before its end, FailedPrecondition if it was
  // refused.
  absl::Status end_status() const;
  // Drops the stream and joins. What was not acknowledged is the coordinator's to retry.
  void Stop();

 private:
  class Loop;
  const std::unique_ptr<Loop> loop_;
};

// "<kind>-<host>-<pid>-<random>", at most 64 characters of [A-Za-z0-9._-].
std::string MakeWorkerId(const std::string& kind);
// Host name, "unknown" if there is none.
std::string HostName();

}  // namespace pike::service
