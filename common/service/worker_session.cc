#include "common/service/worker_session.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/service/bound_result.h"

namespace pike::service {
namespace {

// Enough to recognise a repeated message of the recent past.
constexpr size_t kClosedLeasesMax = 1024;
constexpr size_t kLeasesSpare = 16;
constexpr std::chrono::milliseconds kHeartbeatMin{5};
constexpr std::chrono::milliseconds kHeartbeatMax{60'000};

LeaseKey KeyOf(const v1::LeaseResult& result) {
  return {result.lease_id(), result.attempt()};
}

void Name(const LeaseKey& key, v1::HeldLease* held) {
  held->set_lease_id(key.lease_id);
  held->set_attempt(key.attempt);
}

v1::LeaseResult RetryableFailure(const LeaseKey& key, const std::string& reason) {
  v1::LeaseResult result;
  result.set_lease_id(key.lease_id);
  result.set_attempt(key.attempt);
  result.mutable_infra_failure()->set_reason(reason);
  result.mutable_infra_failure()->set_is_retryable(true);
  result.mutable_infra_failure()->set_blame(v1::BLAME_INFRASTRUCTURE);
  return result;
}

}  // namespace

WorkerSession::WorkerSession(SessionOptions options)
    : options_(std::move(options)),
      held_leases_max_(options_.held_leases_max > 0
                           ? options_.held_leases_max
                           : size_t{2} * options_.hello.slots() + kLeasesSpare),
      random_state_(options_.seed),
      reconnect_pause_(options_.reconnect_min) {
  PIKE_CHECK(options_.reconnect_min.count() > 0);
  PIKE_CHECK(options_.reconnect_min <= options_.reconnect_max);
}

WorkerSession::Actions WorkerSession::Start(MonoTime now) {
  PIKE_CHECK(state_ == State::kIdle && !reconnect_at_);
  reconnect_at_ = now;
  return Tick(now);
}

WorkerSession::Actions WorkerSession::OnConnected(MonoTime now) {
  if (state_ != State::kConnecting)
    return {};
  state_ = State::kWaitingForWelcome;
  welcome_by_ = now + options_.welcome_timeout;
  SendMessage send;
  v1::Hello* hello = send.message.mutable_hello();
  *hello = options_.hello;
  hello->clear_held_leases();
  for (const auto& [key, lease] : leases_)
    Name(key, hello->add_held_leases());
  Actions actions;
  actions.emplace_back(std::move(send));
  return actions;
}

WorkerSession::Actions WorkerSession::OnDisconnected(MonoTime now) {
  Actions actions;
  if (state_ == State::kEnded || state_ == State::kIdle)
    return actions;
  ScheduleReconnect(now);
  EndIfDrained(&actions);
  return actions;
}

WorkerSession::Actions WorkerSession::OnMessage(const v1::CoordinatorMessage& message,
                                                MonoTime now) {
  Actions actions;
  if (state_ != State::kWaitingForWelcome && state_ != State::kOpen)
    return actions;
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      OnWelcome(message.welcome(), now, &actions);
      break;
    case v1::CoordinatorMessage::kLease:
      OnLease(message.lease(), now, &actions);
      break;
    case v1::CoordinatorMessage::kCancelLease:
      Stop({message.cancel_lease().lease_id(), message.cancel_lease().attempt()}, &actions);
      break;
    case v1::CoordinatorMessage::kDrain:
      if (!is_draining_) {
        is_draining_ = true;
        drain_reason_ = message.drain().reason();
        SendDraining(&actions);
      }
      break;
    case v1::CoordinatorMessage::kResultAck:
      Close({message.result_ack().lease_id(), message.result_ack().attempt()});
      break;
    case v1::CoordinatorMessage::kBuildReply:
      actions.emplace_back(DeliverBuildReply{message.build_reply()});
      break;
    case v1::CoordinatorMessage::kRefused:
      Refuse(message.refused().reason(), &actions);
      break;
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      break;  // of a newer coordinator
  }
  EndIfDrained(&actions);
  return actions;
}

void WorkerSession::OnWelcome(const v1::Welcome& welcome, MonoTime now, Actions* actions) {
  if (state_ == State::kOpen)
    return;
  state_ = State::kOpen;
  session_id_ = welcome.session_id();
  reconnect_pause_ = options_.reconnect_min;
  heartbeat_interval_ =
      std::clamp(std::chrono::milliseconds(welcome.heartbeat_interval_ms()) * 3 / 4, kHeartbeatMin,
                 kHeartbeatMax);
  for (const std::string& lease_id : welcome.revoked_lease_ids()) {
    std::vector<LeaseKey> revoked;
    for (const auto& [key, lease] : leases_) {
      if (key.lease_id == lease_id)
        revoked.push_back(key);
    }
    for (const LeaseKey& key : revoked)
      Stop(key, actions);
  }
  if (is_draining_)
    SendDraining(actions);
  for (auto& [key, lease] : leases_) {
    if (lease.result)
      SendResult(&lease, now, actions);
    else if (lease.stage != v1::STAGE_UNSPECIFIED)
      SendStage(key, lease, actions);
  }
  SendHeartbeat(now, actions);
}

void WorkerSession::OnLease(const v1::Lease& lease, MonoTime now, Actions* actions) {
  const LeaseKey key{lease.lease_id(), lease.attempt()};
  const auto held = leases_.find(key);
  if (held != leases_.end()) {
    if (held->second.result)
      SendResult(&held->second, now, actions);
    return;
  }
  if (IsClosed(key))
    return;
  if (leases_.size() >= held_leases_max_) {
    // Not kept: the coordinator sees it missing in the next heartbeat if this message is lost.
    SendMessage send;
    *send.message.mutable_lease_result() =
        RetryableFailure(key, "the worker holds too many leases");
    actions->emplace_back(std::move(send));
    return;
  }
  HeldLease entry;
  entry.deadline = now + std::chrono::milliseconds(lease.deadline_ms());
  leases_.emplace(key, std::move(entry));
  actions->emplace_back(StartLease{lease});
}

WorkerSession::Actions WorkerSession::OnLeaseFinished(v1::LeaseResult result, MonoTime now) {
  Actions actions;
  KeepResult(std::move(result), now, &actions);
  return actions;
}

void WorkerSession::KeepResult(v1::LeaseResult result, MonoTime now, Actions* actions) {
  const auto held = leases_.find(KeyOf(result));
  if (held == leases_.end() || held->second.result)
    return;  // cancelled, revoked or past its deadline meanwhile
  BoundResult(&result);
  held->second.result = std::move(result);
  held->second.result_due = now;
  if (state_ == State::kOpen)
    SendResult(&held->second, now, actions);
}

WorkerSession::Actions WorkerSession::OnStageChanged(const LeaseKey& key, v1::Stage stage,
                                                     MonoTime) {
  Actions actions;
  const auto held = leases_.find(key);
  if (held == leases_.end() || held->second.result)
    return actions;
  held->second.stage = stage;
  if (state_ == State::kOpen)
    SendStage(key, held->second, &actions);
  return actions;
}

bool WorkerSession::OnBuildRequested(v1::BuildRequest request, Actions* actions) {
  if (state_ != State::kOpen)
    return false;
  SendMessage send;
  *send.message.mutable_build_request() = std::move(request);
  actions->emplace_back(std::move(send));
  return true;
}

WorkerSession::Actions WorkerSession::Drain(const std::string& reason, MonoTime) {
  Actions actions;
  if (state_ == State::kEnded)
    return actions;
  if (!is_draining_) {
    is_draining_ = true;
    drain_reason_ = reason;
    if (state_ == State::kOpen)
      SendDraining(&actions);
  }
  EndIfDrained(&actions);
  return actions;
}

WorkerSession::Actions WorkerSession::Abandon(const std::string& reason, MonoTime now) {
  Actions actions;
  for (auto& [key, lease] : leases_) {
    if (lease.result)
      continue;
    actions.emplace_back(StopLease{key});
    KeepResult(RetryableFailure(key, reason), now, &actions);
  }
  return actions;
}

WorkerSession::Actions WorkerSession::Tick(MonoTime now) {
  Actions actions;
  std::vector<LeaseKey> overdue;
  for (const auto& [key, lease] : leases_) {
    if (lease.deadline <= now)
      overdue.push_back(key);
  }
  for (const LeaseKey& key : overdue)
    Stop(key, &actions);
  EndIfDrained(&actions);
  if (reconnect_at_ && *reconnect_at_ <= now) {
    reconnect_at_.reset();
    state_ = State::kConnecting;
    actions.emplace_back(OpenStream{});
  }
  if (state_ == State::kWaitingForWelcome && welcome_by_ <= now) {
    actions.emplace_back(CloseStream{});
    ScheduleReconnect(now);
  }
  if (state_ == State::kOpen) {
    for (auto& [key, lease] : leases_) {
      if (lease.result && lease.result_due <= now)
        SendResult(&lease, now, &actions);
    }
    if (heartbeat_due_ <= now)
      SendHeartbeat(now, &actions);
  }
  return actions;
}

std::optional<MonoTime> WorkerSession::NextDeadline() const {
  if (state_ == State::kEnded)
    return std::nullopt;
  std::optional<MonoTime> next = reconnect_at_;
  const auto consider = [&next](MonoTime time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [key, lease] : leases_) {
    consider(lease.deadline);
    if (state_ == State::kOpen && lease.result)
      consider(lease.result_due);
  }
  if (state_ == State::kWaitingForWelcome)
    consider(welcome_by_);
  if (state_ == State::kOpen)
    consider(heartbeat_due_);
  return next;
}

void WorkerSession::Refuse(const std::string& reason, Actions* actions) {
  for (const auto& [key, lease] : leases_) {
    if (!lease.result)
      actions->emplace_back(StopLease{key});
  }
  leases_.clear();
  state_ = State::kEnded;
  session_id_.clear();
  actions->emplace_back(CloseStream{});
  actions->emplace_back(SessionEnded{reason.empty() ? "refused by the coordinator" : reason});
}

void WorkerSession::Stop(const LeaseKey& key, Actions* actions) {
  const auto held = leases_.find(key);
  if (held == leases_.end()) {
    Close(key);  // a cancellation that overtook its lease
    return;
  }
  if (!held->second.result)
    actions->emplace_back(StopLease{key});
  Close(key);
}

void WorkerSession::Close(const LeaseKey& key) {
  leases_.erase(key);
  if (IsClosed(key))
    return;
  closed_.push_back(key);
  if (closed_.size() > kClosedLeasesMax)
    closed_.pop_front();
}

bool WorkerSession::IsClosed(const LeaseKey& key) const {
  return std::find(closed_.begin(), closed_.end(), key) != closed_.end();
}

void WorkerSession::SendResult(HeldLease* lease, MonoTime now, Actions* actions) {
  lease->result_due = now + options_.result_repeat;
  SendMessage send;
  *send.message.mutable_lease_result() = *lease->result;
  actions->emplace_back(std::move(send));
}

void WorkerSession::SendStage(const LeaseKey& key, const HeldLease& lease, Actions* actions) {
  SendMessage send;
  v1::StageChange* change = send.message.mutable_stage_change();
  change->set_lease_id(key.lease_id);
  change->set_attempt(key.attempt);
  change->set_stage(lease.stage);
  actions->emplace_back(std::move(send));
}

void WorkerSession::SendHeartbeat(MonoTime now, Actions* actions) {
  heartbeat_due_ = now + heartbeat_interval_;
  SendMessage send;
  v1::Heartbeat* heartbeat = send.message.mutable_heartbeat();
  for (const auto& [key, lease] : leases_)
    Name(key, heartbeat->add_held_leases());
  actions->emplace_back(std::move(send));
}

void WorkerSession::SendDraining(Actions* actions) {
  SendMessage send;
  send.message.mutable_draining()->set_reason(drain_reason_);
  actions->emplace_back(std::move(send));
}

void WorkerSession::EndIfDrained(Actions* actions) {
  if (!is_draining_ || !leases_.empty() || state_ == State::kEnded)
    return;
  const bool has_stream =
      state_ == State::kConnecting || state_ == State::kWaitingForWelcome || state_ == State::kOpen;
  state_ = State::kEnded;
  session_id_.clear();
  reconnect_at_.reset();
  if (has_stream)
    actions->emplace_back(CloseStream{});
  actions->emplace_back(SessionEnded{});
}

void WorkerSession::ScheduleReconnect(MonoTime now) {
  state_ = State::kIdle;
  session_id_.clear();
  // Half of the pause is random, so that workers of a restarted coordinator do not come all at once
  // (splitmix64).
  random_state_ += 0x9e3779b97f4a7c15ULL;
  uint64_t mixed = random_state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  mixed ^= mixed >> 31;
  const auto half = reconnect_pause_ / 2;
  const auto jitter = std::chrono::milliseconds(
      static_cast<int64_t>(mixed % static_cast<uint64_t>(half.count() + 1)));
  reconnect_at_ = now + half + jitter;
  reconnect_pause_ = std::min(reconnect_pause_ * 2, options_.reconnect_max);
}

}  // namespace pike::service
