#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "cli/exit_code.h"
#include "common/base/clock.h"
#include "pike/v1/evaluation.pb.h"

namespace pike::cli {

// What the shell shall do for one item. Each is answered by the event of the same noun.
struct SubmitItem {
  size_t item = 0;
};
struct WatchItem {
  size_t item = 0;
  std::string evaluation_id;
};
struct CancelItem {
  size_t item = 0;
  std::string evaluation_id;
};
using SessionCommand = std::variant<SubmitItem, WatchItem, CancelItem>;

struct SessionLimits {
  // Evaluations submitted and not ended. More wait here, so that the service's queue stays fair.
  size_t in_flight_max = 256;
  // First and longest pause before trying again.
  std::chrono::milliseconds retry_min{100};
  std::chrono::milliseconds retry_max{2'000};
  // The service may stay away this long before the session gives up.
  std::chrono::milliseconds unreachable_max{120'000};
  // After an interrupt the session waits this long for the cancelled evaluations to end.
  std::chrono::milliseconds cancel_max{10'000};
};

// The decisions of one `pike eval`: what to submit, watch and cancel, and when to try again. It
// survives restarts of the service: a submission whose answer was lost is repeated under the same
// client key, a broken watch is opened again.
//
// Item: unsent -> sent -> accepted -> watched -> ended; a broken connection leads from sent to
// unsent and from watched to accepted. Refused and dropped items have ended too.
//
// Pure: no I/O and no clock. Not thread-safe: owned by the shell's loop. `now` never goes back.
class EvalSession {
 public:
  EvalSession(size_t items, SessionLimits limits, MonoTime now);

  // Takes the commands that are due. Call after every event and at NextWake().
  std::vector<SessionCommand> TakeCommands(MonoTime now);
  // When TakeCommands has something to do although no event came.
  std::optional<MonoTime> NextWake() const;

  void OnSubmitted(size_t item, const absl::StatusOr<v1::EvaluationRecord>& result, MonoTime now);
  void OnUpdate(size_t item, const v1::EvaluationRecord& record, MonoTime now);
  // The watch of `item` is over, for whatever reason.
  void OnWatchEnded(size_t item, const absl::Status& status, MonoTime now);
  void OnCancelled(size_t item, const absl::StatusOr<v1::EvaluationRecord>& result, MonoTime now);
  // The user wants out: nothing more is submitted, everything submitted is cancelled.
  void Interrupt(MonoTime now);

  bool is_done() const;
  bool is_interrupted() const { return interrupted_at_.has_value(); }
  // Set while the service does not answer.
  const std::optional<MonoTime>& unreachable_since() const { return unreachable_since_; }
  const absl::Status& last_connection_error() const { return connection_error_; }

  size_t size() const { return items_.size(); }
  bool is_item_ended(size_t item) const { return items_[item].state == ItemState::kEnded; }
  // As last heard; empty before the item was accepted.
  const v1::EvaluationRecord& record(size_t item) const { return items_[item].record; }
  // Why the service refused the item; ok otherwise.
  const absl::Status& refusal(size_t item) const { return items_[item].refusal; }
  EvalCounts Count() const;

 private:
  enum class ItemState { kUnsent, kSent, kAccepted, kWatched, kEnded };
  struct Item {
    ItemState state = ItemState::kUnsent;
    // A submission went out whose answer was lost: the service may have it.
    bool maybe_accepted = false;
    bool is_cancel_sent = false;
    v1::EvaluationRecord record;
    absl::Status refusal;
  };

  void Accept(size_t item, const v1::EvaluationRecord& record);
  void End(size_t item);
  void OnConnectionLost(const absl::Status& status, MonoTime now);
  void OnReachable();
  bool IsGivenUp(MonoTime now) const;

  const SessionLimits limits_;
  std::vector<Item> items_;
  size_t ended_ = 0;
  size_t in_flight_ = 0;  // accepted or sent, not ended
  MonoTime now_;
  std::chrono::milliseconds pause_;
  std::optional<MonoTime> retry_at_;   // nothing is tried before
  std::optional<MonoTime> submit_at_;  // nothing is submitted before: the queue was full
  std::optional<MonoTime> unreachable_since_;
  std::optional<MonoTime> interrupted_at_;
  absl::Status connection_error_;
};

}  // namespace pike::cli
