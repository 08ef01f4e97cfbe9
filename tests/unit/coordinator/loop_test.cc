// The loop on the test's own thread: a stop that is requested beforehand makes it work off the
// mailbox and return.
#include "coordinator/server/loop.h"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/registry.h>

#include "coordinator/rpc/evaluation_record.h"
#include "coordinator/store/memory_store.h"
#include "tests/testing/catch.h"

namespace pike::coordinator {
namespace {

// One life of a coordinator without gRPC.
class Life {
 public:
  explicit Life(std::shared_ptr<MemoryDisk> disk, size_t mailbox_max = 64)
      : store(std::move(disk)), mailbox(mailbox_max) {}

  absl::Status Recover() { return loop.Recover(); }
  absl::Status WorkOff() {
    std::stop_source stop;
    stop.request_stop();
    return loop.Run(stop.get_token());
  }
  // Queues a submission and returns its place among the answers.
  size_t Submit(const std::string& client_key) {
    const size_t place = answers.size();
    answers.emplace_back();
    const RequestId request = calls.Add(
        [this, place](absl::StatusOr<Reply> reply) { answers[place] = std::move(reply); });
    v1::EvaluationRecord record;
    record.set_client_key(client_key);
    REQUIRE(mailbox.TryPushClient(Event(EvaluationSubmitted{.request = request,
                                                            .principal = {"local"},
                                                            .client_key = client_key,
                                                            .payload = MakePayload(record, {})})));
    return place;
  }

  MemoryStore store;
  LoopMailbox mailbox;
  CallTable calls;
  EvaluationBoard board{10};
  SessionTable sessions{&mailbox};
  prometheus::Registry registry;
  LoopMetrics metrics{&registry};
  Loop loop{{.snapshot_records = 3},
            {.gpu_classes = {"cpu"}},
            {.store = &store,
             .mailbox = &mailbox,
             .calls = &calls,
             .sessions = &sessions,
             .board = &board,
             .metrics = &metrics}};
  std::vector<std::optional<absl::StatusOr<Reply>>> answers;
};

std::string IdOf(const std::optional<absl::StatusOr<Reply>>& answer) {
  REQUIRE(answer.has_value());
  REQUIRE(answer->ok());
  return std::get<v1::SubmitResponse>(**answer).evaluation().evaluation_id();
}

TEST_CASE("Loop: what was acknowledged is there in the next life", "[coordinator]") {
  const auto disk = std::make_shared<MemoryDisk>();
  std::vector<std::string> ids;
  {
    Life life(disk);
    REQUIRE(life.Recover().ok());
    for (int i = 0; i < 5; ++i)
      life.Submit("key" + std::to_string(i));
    REQUIRE(life.WorkOff().ok());
    for (const auto& answer : life.answers)
      ids.push_back(IdOf(answer));
    CHECK(life.board.size() == 5);
  }
  Life life(disk);
  REQUIRE(life.Recover().ok());
  CHECK(life.board.size() == 5);
  CHECK(life.board.Find({3})->client_key() == "key2");
  CHECK(life.board.Find({3})->queue_position() == 3);
  const size_t again = life.Submit("key4");
  REQUIRE(life.WorkOff().ok());
  CHECK(IdOf(life.answers[again]) == ids[4]);
}

TEST_CASE("Loop: a failing store ends it and nothing more is acknowledged", "[coordinator]") {
  const auto disk = std::make_shared<MemoryDisk>();
  {
    Life life(disk);
    REQUIRE(life.Recover().ok());
    life.Submit("first");
    REQUIRE(life.WorkOff().ok());
    disk->FailAppend(0, absl::ResourceExhaustedError("disk full"));
    const size_t lost = life.Submit("second");
    CHECK(life.WorkOff().code() == absl::StatusCode::kResourceExhausted);
    CHECK_FALSE(life.answers[lost].has_value());
  }
  Life life(disk);
  REQUIRE(life.Recover().ok());
  CHECK(life.board.size() == 1);
}

TEST_CASE("Loop: a log that cannot be read stops the start", "[coordinator]") {
  const auto disk = std::make_shared<MemoryDisk>();
  REQUIRE(MemoryStore(disk).Append({.records = {"not a record"}}).ok());
  Life life(disk);
  CHECK(life.Recover().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("LoopMailbox: clients leave room for workers, whose events wait when it is full",
          "[coordinator]") {
  LoopMailbox mailbox(16);
  SessionTable sessions(&mailbox);
  int accepted = 0;
  while (mailbox.TryPushClient(LoadAsked{}))
    ++accepted;
  CHECK(accepted == 12);
  const Event heartbeat = HeartbeatReceived{.session = {"s"}};
  int delivered = 0;
  while (sessions.Deliver(heartbeat, nullptr))
    ++delivered;
  CHECK(delivered == 4);
  CHECK(mailbox.mailbox().TakeBatch(16, MonoNow()).size() == 16);
  sessions.DeliverWaiting();
  CHECK(mailbox.mailbox().TakeBatch(16, MonoNow()).size() == 1);
}

TEST_CASE("EvaluationBoard: a watcher gets the present state, changes and the end",
          "[coordinator]") {
  struct Recorder : EvaluationWatcher {
    void Show(const ShownEvaluation& shown) override { stages.push_back(shown.record->stage()); }
    void Close(const absl::Status& status) override { closed = status; }
    std::vector<int> stages;
    absl::Status closed;
  };
  const auto at = [](v1::Stage stage) {
    v1::EvaluationRecord record;
    record.set_stage(stage);
    return record;
  };
  EvaluationBoard board(1);
  const auto watcher = std::make_shared<Recorder>();
  CHECK(absl::IsNotFound(board.Watch({1}, watcher)));
  board.Show({1}, at(v1::STAGE_QUEUED_COMPILE));
  CHECK(board.Watch({1}, watcher).ok());
  CHECK(absl::IsResourceExhausted(board.Watch({1}, std::make_shared<Recorder>())));
  board.Show({1}, at(v1::STAGE_QUEUED_COMPILE));  // the same: not shown
  board.Show({1}, at(v1::STAGE_COMPILE));
  board.End({1}, at(v1::STAGE_ENDED));
  CHECK(watcher->stages ==
        std::vector<int>{v1::STAGE_QUEUED_COMPILE, v1::STAGE_COMPILE, v1::STAGE_ENDED});
  CHECK(board.size() == 0);
  board.Show({2}, at(v1::STAGE_COMPILE));
  CHECK(board.Watch({2}, watcher).ok());
  board.Close(absl::UnavailableError("stopping"));
  CHECK(absl::IsUnavailable(watcher->closed));
}

}  // namespace
}  // namespace pike::coordinator
