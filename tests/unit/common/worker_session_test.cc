#include "common/service/worker_session.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/service/bound_result.h"
#include "tests/testing/catch.h"

namespace pike::service {
namespace {

using std::chrono::milliseconds;

MonoTime At(int ms) {
  return MonoTime{} + std::chrono::hours(1) + milliseconds(ms);
}

SessionOptions Options() {
  SessionOptions options;
  options.hello.set_worker_id("w");
  options.hello.set_slots(2);
  options.held_leases_max = 3;
  options.seed = 7;
  return options;
}

v1::CoordinatorMessage Welcome(const std::string& session = "s1",
                               const std::vector<std::string>& revoked = {}) {
  v1::CoordinatorMessage message;
  message.mutable_welcome()->set_session_id(session);
  message.mutable_welcome()->set_heartbeat_interval_ms(1000);
  for (const std::string& id : revoked)
    message.mutable_welcome()->add_revoked_lease_ids(id);
  return message;
}

v1::CoordinatorMessage NewLease(const std::string& id, uint32_t attempt = 1,
                                uint32_t deadline_ms = 60'000) {
  v1::CoordinatorMessage message;
  message.mutable_lease()->set_lease_id(id);
  message.mutable_lease()->set_attempt(attempt);
  message.mutable_lease()->set_deadline_ms(deadline_ms);
  return message;
}

v1::CoordinatorMessage Cancel(const std::string& id, uint32_t attempt = 1) {
  v1::CoordinatorMessage message;
  message.mutable_cancel_lease()->set_lease_id(id);
  message.mutable_cancel_lease()->set_attempt(attempt);
  return message;
}

v1::CoordinatorMessage Ack(const std::string& id, uint32_t attempt = 1) {
  v1::CoordinatorMessage message;
  message.mutable_result_ack()->set_lease_id(id);
  message.mutable_result_ack()->set_attempt(attempt);
  return message;
}

v1::LeaseResult Result(const std::string& id, uint32_t attempt = 1) {
  v1::LeaseResult result;
  result.set_lease_id(id);
  result.set_attempt(attempt);
  result.mutable_verdict()->set_kind(v1::VERDICT_KIND_VALID);
  return result;
}

// One word per action: the vocabulary of these tests.
std::string Word(const SessionAction& action) {
  if (std::holds_alternative<OpenStream>(action))
    return "open";
  if (std::holds_alternative<CloseStream>(action))
    return "close";
  if (const auto* start = std::get_if<StartLease>(&action))
    return "start " + start->lease.lease_id();
  if (const auto* stop = std::get_if<StopLease>(&action))
    return "stop " + stop->key.lease_id;
  if (const auto* ended = std::get_if<SessionEnded>(&action))
    return "ended" + (ended->refusal.empty() ? "" : " " + ended->refusal);
  if (std::holds_alternative<DeliverBuildReply>(action))
    return "build reply";
  const v1::WorkerMessage& message = std::get<SendMessage>(action).message;
  switch (message.message_case()) {
    case v1::WorkerMessage::kHello: {
      std::string text = "hello";
      for (const v1::HeldLease& held : message.hello().held_leases())
        text += " " + held.lease_id();
      return text;
    }
    case v1::WorkerMessage::kHeartbeat: {
      std::string text = "heartbeat";
      for (const v1::HeldLease& held : message.heartbeat().held_leases())
        text += " " + held.lease_id();
      return text;
    }
    case v1::WorkerMessage::kLeaseResult:
      return (message.lease_result().has_infra_failure() ? "failure " : "result ") +
             message.lease_result().lease_id();
    case v1::WorkerMessage::kStageChange:
      return "stage " + message.stage_change().lease_id();
    case v1::WorkerMessage::kDraining:
      return "draining";
    case v1::WorkerMessage::kBuildRequest:
      return "build request";
    case v1::WorkerMessage::MESSAGE_NOT_SET:
      break;
  }
  return "nothing";
}

using Words = std::vector<std::string>;

Words Say(const WorkerSession::Actions& actions) {
  Words words;
  for (const SessionAction& action : actions)
    words.push_back(Word(action));
  return words;
}

WorkerSession Open() {
  WorkerSession session(Options());
  session.Start(At(0));
  session.OnConnected(At(0));
  session.OnMessage(Welcome(), At(0));
  return session;
}

TEST_CASE("WorkerSession: holds as many leases as its slots ask for") {
  SessionOptions options = Options();
  options.held_leases_max = 0;
  options.hello.set_slots(kWorkerSlotsMax);
  WorkerSession session(options);
  session.Start(At(0));
  session.OnConnected(At(0));
  session.OnMessage(Welcome(), At(0));
  for (uint32_t slot = 0; slot < kWorkerSlotsMax; ++slot) {
    const WorkerSession::Actions actions =
        session.OnMessage(NewLease("lease-" + std::to_string(slot)), At(0));
    REQUIRE(actions.size() == 1);
    REQUIRE(std::holds_alternative<StartLease>(actions.front()));
  }
}

TEST_CASE("WorkerSession: a result that no message could carry is cut, or given up") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(0));
  session.OnMessage(NewLease("b"), At(0));
  v1::LeaseResult large = Result("a");
  for (int build = 0; build < 64; ++build)
    large.mutable_verdict()->add_builds()->mutable_error()->mutable_stderr_tail()->set_head(
        std::string(1 << 20, 'x'));
  const WorkerSession::Actions cut = session.OnLeaseFinished(large, At(1));
  REQUIRE(Say(cut) == Words{"result a"});
  const v1::LeaseResult& sent = std::get<SendMessage>(cut.front()).message.lease_result();
  CHECK(sent.ByteSizeLong() <= kResultBytesMax);
  CHECK(sent.verdict().kind() == v1::VERDICT_KIND_VALID);
  CHECK(sent.verdict().builds_size() == 64);

  large = Result("b");
  large.mutable_verdict()->set_reason(std::string(kResultBytesMax, 'x'));
  const WorkerSession::Actions given_up = session.OnLeaseFinished(large, At(2));
  REQUIRE(Say(given_up) == Words{"failure b"});
  CHECK_FALSE(std::get<SendMessage>(given_up.front())
                  .message.lease_result()
                  .infra_failure()
                  .is_retryable());
}

TEST_CASE("WorkerSession: opens with Hello and a first heartbeat") {
  WorkerSession session(Options());
  CHECK(Say(session.Start(At(0))) == Words{"open"});
  CHECK(Say(session.OnConnected(At(1))) == Words{"hello"});
  CHECK(session.session_id().empty());
  CHECK(Say(session.OnMessage(Welcome(), At(2))) == Words{"heartbeat"});
  CHECK(session.session_id() == "s1");
}

TEST_CASE("WorkerSession: heartbeats name held leases, unacknowledged results too") {
  WorkerSession session = Open();
  CHECK(Say(session.OnMessage(NewLease("a"), At(1))) == Words{"start a"});
  CHECK(Say(session.OnMessage(NewLease("b"), At(1))) == Words{"start b"});
  CHECK(Say(session.OnLeaseFinished(Result("a"), At(2))) == Words{"result a"});
  CHECK(Say(session.Tick(At(700))).empty());
  CHECK(Say(session.Tick(At(750))) == Words{"heartbeat a b"});
  session.OnMessage(Ack("a"), At(751));
  CHECK(Say(session.Tick(At(1500))) == Words{"heartbeat b"});
}

TEST_CASE("WorkerSession: a result is repeated until acknowledged, over reconnects") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  session.OnLeaseFinished(Result("a"), At(2));
  CHECK(Say(session.Tick(At(5002))) == Words{"result a", "heartbeat a"});
  CHECK(Say(session.OnDisconnected(At(5010))).empty());
  CHECK(session.session_id().empty());
  const MonoTime again = *session.NextDeadline();
  CHECK(again <= At(5010 + 100));
  CHECK(Say(session.Tick(again)) == Words{"open"});
  CHECK(Say(session.OnConnected(again)) == Words{"hello a"});
  CHECK(Say(session.OnMessage(Welcome("s2"), again)) == Words{"result a", "heartbeat a"});
  session.OnMessage(Ack("a"), again);
  CHECK(session.held_leases() == 0);
}

TEST_CASE("WorkerSession: a result made while disconnected waits for Welcome") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  session.OnDisconnected(At(2));
  CHECK(Say(session.OnLeaseFinished(Result("a"), At(3))).empty());
  session.Tick(At(200));
  session.OnConnected(At(200));
  CHECK(Say(session.OnMessage(Welcome("s2"), At(201))) == Words{"result a", "heartbeat a"});
}

TEST_CASE("WorkerSession: the stage is told again after a reconnect") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  CHECK(Say(session.OnStageChanged({"a", 1}, v1::STAGE_VERIFY, At(2))) == Words{"stage a"});
  session.OnDisconnected(At(3));
  session.Tick(At(200));
  session.OnConnected(At(200));
  CHECK(Say(session.OnMessage(Welcome("s2"), At(201))) == Words{"stage a", "heartbeat a"});
}

TEST_CASE("WorkerSession: revoked leases are stopped and their results dropped") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  session.OnMessage(NewLease("b"), At(1));
  session.OnLeaseFinished(Result("b"), At(2));
  session.OnDisconnected(At(3));
  session.Tick(At(200));
  session.OnConnected(At(200));
  CHECK(Say(session.OnMessage(Welcome("s2", {"a", "b", "unknown"}), At(201))) ==
        Words{"stop a", "heartbeat"});
  CHECK(Say(session.OnLeaseFinished(Result("a"), At(300))).empty());
}

TEST_CASE("WorkerSession: a cancelled lease is stopped once and sends nothing") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  CHECK(Say(session.OnMessage(Cancel("a"), At(2))) == Words{"stop a"});
  CHECK(Say(session.OnMessage(Cancel("a"), At(3))).empty());
  CHECK(Say(session.OnLeaseFinished(Result("a"), At(4))).empty());
  CHECK(Say(session.OnMessage(NewLease("a", 2), At(5))) == Words{"start a"});
}

TEST_CASE("WorkerSession: a repeated lease starts nothing twice") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  CHECK(Say(session.OnMessage(NewLease("a"), At(2))).empty());
  session.OnLeaseFinished(Result("a"), At(3));
  CHECK(Say(session.OnMessage(NewLease("a"), At(4))) == Words{"result a"});
  session.OnMessage(Ack("a"), At(5));
  CHECK(Say(session.OnMessage(NewLease("a"), At(6))).empty());
}

TEST_CASE("WorkerSession: a cancellation that overtakes its lease keeps it from starting") {
  WorkerSession session = Open();
  session.OnMessage(Cancel("a"), At(1));
  CHECK(Say(session.OnMessage(NewLease("a"), At(2))).empty());
}

TEST_CASE("WorkerSession: leases above the bound go back at once") {
  WorkerSession session = Open();
  for (const char* id : {"a", "b", "c"})
    session.OnMessage(NewLease(id), At(1));
  CHECK(Say(session.OnMessage(NewLease("d"), At(2))) == Words{"failure d"});
  CHECK(session.held_leases() == 3);
}

TEST_CASE("WorkerSession: a lease past its deadline is stopped") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a", 1, 100), At(1));
  CHECK(*session.NextDeadline() == At(101));
  CHECK(Say(session.Tick(At(101))) == Words{"stop a"});
  CHECK(session.held_leases() == 0);
}

TEST_CASE("WorkerSession: pauses between connections grow to the bound and restart small") {
  SessionOptions options = Options();
  options.reconnect_min = milliseconds(100);
  options.reconnect_max = milliseconds(800);
  WorkerSession session(options);
  session.Start(At(0));
  MonoTime now = At(0);
  std::vector<int64_t> pauses;
  for (int i = 0; i < 8; ++i) {
    session.OnDisconnected(now);
    const MonoTime next = *session.NextDeadline();
    pauses.push_back(std::chrono::duration_cast<milliseconds>(next - now).count());
    now = next;
    CHECK(Say(session.Tick(now)) == Words{"open"});
  }
  CHECK(pauses.front() <= 100);
  CHECK(pauses.back() >= 400);
  CHECK(*std::max_element(pauses.begin(), pauses.end()) <= 800);
  session.OnConnected(now);
  session.OnMessage(Welcome(), now);
  session.OnDisconnected(now);
  CHECK(*session.NextDeadline() <= now + milliseconds(100));
}

TEST_CASE("WorkerSession: a stream without Welcome is dropped") {
  WorkerSession session(Options());
  session.Start(At(0));
  session.OnConnected(At(0));
  CHECK(Say(session.Tick(At(9'999))).empty());
  CHECK(Say(session.Tick(At(10'000))) == Words{"close"});
  CHECK(Say(session.Tick(At(10'100))) == Words{"open"});
}

TEST_CASE("WorkerSession: a refused worker ends with the reason") {
  WorkerSession session(Options());
  session.Start(At(0));
  session.OnConnected(At(0));
  v1::CoordinatorMessage refused;
  refused.mutable_refused()->set_reason("two classes");
  CHECK(Say(session.OnMessage(refused, At(1))) == Words{"close", "ended two classes"});
  CHECK(session.is_ended());
  CHECK_FALSE(session.NextDeadline());
}

TEST_CASE("WorkerSession: draining finishes what is held, then ends") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  CHECK(Say(session.Drain("stop", At(2))) == Words{"draining"});
  CHECK(Say(session.OnLeaseFinished(Result("a"), At(3))) == Words{"result a"});
  CHECK(Say(session.OnMessage(Ack("a"), At(4))) == Words{"close", "ended"});
}

TEST_CASE("WorkerSession: the coordinator may drain an idle worker") {
  WorkerSession session = Open();
  v1::CoordinatorMessage drain;
  drain.mutable_drain()->set_reason("upgrade");
  CHECK(Say(session.OnMessage(drain, At(2))) == Words{"draining", "close", "ended"});
}

TEST_CASE("WorkerSession: abandoned leases are stopped and handed back") {
  WorkerSession session = Open();
  session.OnMessage(NewLease("a"), At(1));
  session.OnMessage(NewLease("b"), At(1));
  session.OnLeaseFinished(Result("b"), At(2));
  CHECK(Say(session.Abandon("stop", At(3))) == Words{"stop a", "failure a"});
  CHECK(Say(session.OnLeaseFinished(Result("a"), At(4))).empty());
}

TEST_CASE("WorkerSession: a build is asked for in an open session only") {
  WorkerSession session(Options());
  WorkerSession::Actions actions;
  CHECK_FALSE(session.OnBuildRequested({}, &actions));
  WorkerSession open = Open();
  CHECK(open.OnBuildRequested({}, &actions));
  CHECK(Say(actions) == Words{"build request"});
}

// A scripted coordinator behind a transport that loses, repeats and breaks. Whatever happens, every
// lease is started at most once, and once faults stop every lease that was not cancelled is
// reported.
class LossyRun {
 public:
  explicit LossyRun(uint64_t seed) : random_(seed), session_(Options(seed)) {}

  void Run() {
    Carry(session_.Start(Now()));
    for (int step = 0; step < 400; ++step)
      Step(/*is_faulty=*/true);
    for (int step = 0; step < 200; ++step)
      Step(/*is_faulty=*/false);
    CHECK(acknowledged_ == granted_);
    for (const auto& [key, count] : started_)
      CHECK(count == 1);
    CHECK(session_.held_leases() == 0);
  }

 private:
  static SessionOptions Options(uint64_t seed) {
    SessionOptions options;
    options.hello.set_worker_id("w");
    options.seed = seed;
    return options;
  }

  uint64_t Draw(uint64_t bound) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (random_ >> 33) % bound;
  }
  MonoTime Now() const { return At(now_ms_); }

  void Step(bool is_faulty) {
    now_ms_ += static_cast<int>(Draw(400));
    Carry(session_.Tick(Now()));
    if (is_faulty && Draw(20) == 0 && is_connected_)
      Break();
    if (is_open_ && is_faulty && granted_.size() < 60 && Draw(3) == 0) {
      const LeaseKey key{"l" + std::to_string(granted_.size()), 1};
      granted_.insert(key);
      pending_.insert(key);
    }
    // The coordinator sends a lease until a heartbeat shows that it arrived.
    if (is_open_) {
      for (const LeaseKey& key : pending_) {
        if (!seen_.contains(key) && !acknowledged_.contains(key))
          Deliver(NewLease(key.lease_id, key.attempt, 10'000'000), is_faulty);
      }
    }
    if (!running_.empty() && Draw(3) == 0) {
      const LeaseKey key = *running_.begin();
      running_.erase(running_.begin());
      Carry(session_.OnLeaseFinished(Result(key.lease_id, key.attempt), Now()));
    }
  }

  void Deliver(const v1::CoordinatorMessage& message, bool is_faulty) {
    if (!is_open_ && message.message_case() != v1::CoordinatorMessage::kWelcome)
      return;
    if (is_faulty && Draw(10) == 0)
      return;
    const int copies = is_faulty && Draw(10) == 0 ? 2 : 1;
    for (int i = 0; i < copies; ++i)
      Carry(session_.OnMessage(message, Now()));
  }

  void Break() {
    is_connected_ = is_open_ = false;
    Carry(session_.OnDisconnected(Now()));
  }

  void Carry(WorkerSession::Actions actions) {
    for (SessionAction& action : actions) {
      if (std::holds_alternative<OpenStream>(action)) {
        is_connected_ = true;
        Carry(session_.OnConnected(Now()));
      } else if (std::holds_alternative<CloseStream>(action)) {
        is_connected_ = is_open_ = false;
      } else if (auto* start = std::get_if<StartLease>(&action)) {
        const LeaseKey key{start->lease.lease_id(), start->lease.attempt()};
        ++started_[key];
        running_.insert(key);
      } else if (auto* send = std::get_if<SendMessage>(&action)) {
        Receive(send->message);
      }
    }
  }

  void Receive(const v1::WorkerMessage& message) {
    if (!is_connected_ || Draw(10) == 0)
      return;
    if (message.has_hello()) {
      is_open_ = true;
      Deliver(Welcome("s" + std::to_string(now_ms_)), false);
    } else if (message.has_heartbeat()) {
      for (const v1::HeldLease& held : message.heartbeat().held_leases())
        seen_.insert({held.lease_id(), held.attempt()});
    } else if (message.has_lease_result()) {
      const LeaseKey key{message.lease_result().lease_id(), message.lease_result().attempt()};
      acknowledged_.insert(key);
      Deliver(Ack(key.lease_id, key.attempt), true);
    }
  }

  uint64_t random_;
  WorkerSession session_;
  int now_ms_ = 0;
  bool is_connected_ = false;
  bool is_open_ = false;
  std::set<LeaseKey> granted_;
  std::set<LeaseKey> pending_;
  std::set<LeaseKey> seen_;
  std::set<LeaseKey> running_;
  std::set<LeaseKey> acknowledged_;
  std::map<LeaseKey, int> started_;
};

TEST_CASE("WorkerSession: no result is lost over a lossy transport") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    LossyRun(seed).Run();
  }
}

}  // namespace
}  // namespace pike::service
