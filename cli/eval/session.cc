#include "cli/eval/session.h"

#include <algorithm>

#include "common/base/check.h"

namespace pike::cli {
namespace {

// Whether another try may help: the answer says something about the connection, not the request.
bool IsConnectionError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnknown:  // gRPC's "Stream removed" of a server that died
      return true;
    default:
      return false;
  }
}

}  // namespace

EvalSession::EvalSession(size_t items, SessionLimits limits, MonoTime now)
    : limits_(limits), items_(items), now_(now), pause_(limits.retry_min) {
  PIKE_CHECK(limits.in_flight_max > 0);
}

std::vector<SessionCommand> EvalSession::TakeCommands(MonoTime now) {
  now_ = now;
  std::vector<SessionCommand> commands;
  if (is_done() || (retry_at_.has_value() && now < *retry_at_))
    return commands;
  retry_at_.reset();
  if (submit_at_.has_value() && now >= *submit_at_)
    submit_at_.reset();
  for (size_t i = 0; i < items_.size(); i++) {
    Item& item = items_[i];
    if (item.state == ItemState::kAccepted) {
      item.state = ItemState::kWatched;
      commands.push_back(WatchItem{i, item.record.evaluation_id()});
    }
    const bool is_accepted = item.state == ItemState::kWatched;
    if (is_interrupted() && is_accepted && !item.is_cancel_sent) {
      item.is_cancel_sent = true;
      commands.push_back(CancelItem{i, item.record.evaluation_id()});
    }
    // After an interrupt only submissions with a lost answer go out, to learn what to cancel.
    const bool may_submit = !submit_at_.has_value() && (!is_interrupted() || item.maybe_accepted);
    if (item.state == ItemState::kUnsent && may_submit && in_flight_ < limits_.in_flight_max) {
      item.state = ItemState::kSent;
      in_flight_++;
      commands.push_back(SubmitItem{i});
    }
  }
  return commands;
}

std::optional<MonoTime> EvalSession::NextWake() const {
  std::optional<MonoTime> wake;
  const auto consider = [&wake](MonoTime time) {
    wake = wake.has_value() ? std::min(*wake, time) : time;
  };
  if (retry_at_.has_value())
    consider(*retry_at_);
  if (submit_at_.has_value())
    consider(*submit_at_);
  if (unreachable_since_.has_value())
    consider(*unreachable_since_ + limits_.unreachable_max);
  if (interrupted_at_.has_value())
    consider(*interrupted_at_ + limits_.cancel_max);
  return wake;
}

void EvalSession::OnSubmitted(size_t item, const absl::StatusOr<v1::EvaluationRecord>& result,
                              MonoTime now) {
  now_ = now;
  PIKE_CHECK(items_[item].state == ItemState::kSent);
  if (result.ok()) {
    OnReachable();
    Accept(item, *result);
    return;
  }
  items_[item].state = ItemState::kUnsent;
  in_flight_--;
  if (IsConnectionError(result.status())) {
    items_[item].maybe_accepted = true;
    OnConnectionLost(result.status(), now);
  } else if (absl::IsResourceExhausted(result.status())) {
    OnReachable();
    submit_at_ = now + limits_.retry_max;
  } else {
    OnReachable();
    items_[item].refusal = result.status();
    End(item);
  }
}

void EvalSession::OnUpdate(size_t item, const v1::EvaluationRecord& record, MonoTime now) {
  now_ = now;
  OnReachable();
  // A cancellation's answer may have ended the item before its watch says so.
  if (is_item_ended(item))
    return;
  items_[item].record = record;
  if (record.stage() == v1::STAGE_ENDED) {
    in_flight_--;
    End(item);
  }
}

void EvalSession::OnWatchEnded(size_t item, const absl::Status& status, MonoTime now) {
  now_ = now;
  if (is_item_ended(item))
    return;
  items_[item].state = ItemState::kAccepted;
  // A stream that ends well but early is a service that shuts down.
  if (status.ok() || IsConnectionError(status) || absl::IsResourceExhausted(status)) {
    OnConnectionLost(status.ok() ? absl::UnavailableError("the watch ended early") : status, now);
    return;
  }
  items_[item].refusal = status;
  in_flight_--;
  End(item);
}

void EvalSession::OnCancelled(size_t item, const absl::StatusOr<v1::EvaluationRecord>& result,
                              MonoTime now) {
  now_ = now;
  if (is_item_ended(item))
    return;
  if (result.ok()) {
    OnUpdate(item, *result, now);
  } else if (IsConnectionError(result.status())) {
    items_[item].is_cancel_sent = false;
    OnConnectionLost(result.status(), now);
  }
}

void EvalSession::Interrupt(MonoTime now) {
  now_ = now;
  if (is_interrupted())
    return;
  interrupted_at_ = now;
  submit_at_.reset();
  for (size_t i = 0; i < items_.size(); i++) {
    if (items_[i].state == ItemState::kUnsent && !items_[i].maybe_accepted)
      End(i);
  }
}

bool EvalSession::is_done() const {
  return ended_ == items_.size() || IsGivenUp(now_);
}

EvalCounts EvalSession::Count() const {
  EvalCounts counts;
  counts.is_interrupted = is_interrupted();
  for (const Item& item : items_) {
    if (item.state != ItemState::kEnded) {
      counts.unfinished++;
      continue;
    }
    if (!item.refusal.ok()) {
      counts.refused++;
      counts.invalid += absl::IsInvalidArgument(item.refusal) ? 1 : 0;
      continue;
    }
    switch (item.record.verdict().kind()) {
      case v1::VERDICT_KIND_VALID:
        counts.valid++;
        break;
      case v1::VERDICT_KIND_INFRA_ERROR:
        counts.infra_error++;
        break;
      case v1::VERDICT_KIND_CANCELLED:
      case v1::VERDICT_KIND_UNSPECIFIED:  // never submitted
        counts.cancelled++;
        break;
      default:
        counts.not_valid++;
    }
  }
  return counts;
}

void EvalSession::Accept(size_t item, const v1::EvaluationRecord& record) {
  items_[item].record = record;
  items_[item].maybe_accepted = false;
  items_[item].state = ItemState::kAccepted;
  if (record.stage() == v1::STAGE_ENDED) {
    in_flight_--;
    End(item);
  }
}

void EvalSession::End(size_t item) {
  PIKE_CHECK(!is_item_ended(item));
  items_[item].state = ItemState::kEnded;
  ended_++;
}

void EvalSession::OnConnectionLost(const absl::Status& status, MonoTime now) {
  connection_error_ = status;
  if (!unreachable_since_.has_value())
    unreachable_since_ = now;
  // Many watches break at once: that is one loss, and one step of the pause.
  if (retry_at_.has_value())
    return;
  retry_at_ = now + pause_;
  pause_ = std::min(pause_ * 2, limits_.retry_max);
}

void EvalSession::OnReachable() {
  unreachable_since_.reset();
  pause_ = limits_.retry_min;
}

bool EvalSession::IsGivenUp(MonoTime now) const {
  if (unreachable_since_.has_value() && now >= *unreachable_since_ + limits_.unreachable_max)
    return true;
  return interrupted_at_.has_value() && now >= *interrupted_at_ + limits_.cancel_max;
}

}  // namespace pike::cli
