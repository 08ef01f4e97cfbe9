#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "pike/v1/worker.pb.h"

namespace pike::service {

// Most slots of one worker.
inline constexpr uint32_t kWorkerSlotsMax = 256;

// Name of one lease: a new attempt at the same work is another lease.
struct LeaseKey {
  std::string lease_id;
  uint32_t attempt = 0;
  friend auto operator<=>(const LeaseKey&, const LeaseKey&) = default;
};

// What the session asks its shell to do, in order.
struct OpenStream {};   // connect and call OnConnected, or OnDisconnected if that failed
struct CloseStream {};  // drop the stream; no OnDisconnected is expected for it
struct SendMessage {
  v1::WorkerMessage message;
};
struct StartLease {
  v1::Lease lease;  // answer with OnLeaseFinished, once
};
struct StopLease {
  LeaseKey key;  // no result is wanted; a late OnLeaseFinished is ignored
};
struct DeliverBuildReply {
  v1::BuildReply reply;
};
// The session is over: nothing will be asked for any more. `refusal` is empty after a drain.
struct SessionEnded {
  std::string refusal;
};
using SessionAction = std::variant<OpenStream, CloseStream, SendMessage, StartLease, StopLease,
                                   DeliverBuildReply, SessionEnded>;

struct SessionOptions {
  v1::Hello hello;  // `held_leases` is filled in by the session
  std::chrono::milliseconds reconnect_min{
      100};  // first pause after a broken stream; doubles, with jitter
  std::chrono::milliseconds reconnect_max{5'000};     // longest pause
  std::chrono::milliseconds welcome_timeout{10'000};  // a stream without Welcome by then is dropped
  std::chrono::milliseconds result_repeat{
      5'000};  // an unacknowledged result is sent again this often
  // Leases beyond it go back at once as retryable failures. 0: twice the slots of `hello`, whose
  // leases may be replaced while their results are not acknowledged yet, and some.
  size_t held_leases_max = 0;
  uint64_t seed = 0;  // of the jitter
};

// The worker's side of the Worker stream as a pure machine: no threads, clocks, I/O or gRPC (it
// uses the stream's own messages as plain values, so that simulated and real workers say the same
// bytes).
//
//   kIdle -> kConnecting -> kWaitingForWelcome -> kOpen -> kIdle (broken stream, after a pause)
//   any -> kEnded (refused, or drained and empty)
//
// Leases outlive streams: a lease is held from StartLease until its result is acknowledged, or it
// is cancelled, revoked, or past its own deadline. Held leases are named in Hello and every
// heartbeat, and results are sent again after a reconnect and every `result_repeat` until
// acknowledged. At most `held_leases_max` leases and as many unacknowledged results are kept, so
// memory is bounded.
//
// Every call returns what to do now; `now` must not go backwards. Call Tick at NextDeadline().
// Not thread-safe: owned by one loop.
class WorkerSession {
 public:
  using Actions = std::vector<SessionAction>;

  explicit WorkerSession(SessionOptions options);

  Actions Start(MonoTime now);
  Actions OnConnected(MonoTime now);
  Actions OnDisconnected(MonoTime now);
  Actions OnMessage(const v1::CoordinatorMessage& message, MonoTime now);
  // A lease's outcome; `times`, `lease_id` and `attempt` are set by the caller.
  Actions OnLeaseFinished(v1::LeaseResult result, MonoTime now);
  Actions OnStageChanged(const LeaseKey& key, v1::Stage stage, MonoTime now);
  // Sends a request if the stream is open; false otherwise (the caller fails the build as
  // infrastructure).
  bool OnBuildRequested(v1::BuildRequest request, Actions* actions);
  // Takes no more leases, finishes the held ones and ends.
  Actions Drain(const std::string& reason, MonoTime now);
  // Stops every running lease and reports it as a retryable failure, so that another worker can
  // start at once.
  Actions Abandon(const std::string& reason, MonoTime now);
  Actions Tick(MonoTime now);

  // When Tick is due; nothing if the session waits for events only.
  std::optional<MonoTime> NextDeadline() const;

  // Id from Welcome while the stream is open; empty otherwise.
  const std::string& session_id() const { return session_id_; }
  bool is_ended() const { return state_ == State::kEnded; }
  // Leases that are running or whose result is not acknowledged.
  size_t held_leases() const { return leases_.size(); }

 private:
  enum class State { kIdle, kConnecting, kWaitingForWelcome, kOpen, kEnded };

  struct HeldLease {
    MonoTime deadline;
    v1::Stage stage = v1::STAGE_UNSPECIFIED;
    std::optional<v1::LeaseResult> result;  // set once finished, until acknowledged
    MonoTime result_due;                    // when to send the result again
  };

  void OnWelcome(const v1::Welcome& welcome, MonoTime now, Actions* actions);
  void OnLease(const v1::Lease& lease, MonoTime now, Actions* actions);
  void Refuse(const std::string& reason, Actions* actions);
  void Stop(const LeaseKey& key, Actions* actions);
  void Close(const LeaseKey& key);
  void KeepResult(v1::LeaseResult result, MonoTime now, Actions* actions);
  void SendResult(HeldLease* lease, MonoTime now, Actions* actions);
  void SendStage(const LeaseKey& key, const HeldLease& lease, Actions* actions);
  void SendHeartbeat(MonoTime now, Actions* actions);
  void SendDraining(Actions* actions);
  void EndIfDrained(Actions* actions);
  void ScheduleReconnect(MonoTime now);
  bool IsClosed(const LeaseKey& key) const;

  const SessionOptions options_;
  const size_t held_leases_max_;
  State state_ = State::kIdle;
  uint64_t random_state_;
  std::string session_id_;
  bool is_draining_ = false;
  std::string drain_reason_;
  std::chrono::milliseconds heartbeat_interval_{1'000};
  std::chrono::milliseconds reconnect_pause_;
  std::optional<MonoTime> reconnect_at_;
  MonoTime welcome_by_;
  MonoTime heartbeat_due_;
  std::map<LeaseKey, HeldLease> leases_;
  std::deque<LeaseKey>
      closed_;  // recently ended leases, so that a repeated Lease does not start them again
};

}  // namespace pike::service
