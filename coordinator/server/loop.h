#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "coordinator/core/core.h"
#include "coordinator/rpc/call_table.h"
#include "coordinator/rpc/evaluation_board.h"
#include "coordinator/rpc/loop_event.h"
#include "coordinator/rpc/session_table.h"
#include "coordinator/server/loop_metrics.h"
#include "coordinator/store/store.h"

namespace pike::coordinator {

struct LoopOptions {
  size_t batch_max = 256;                           // events per transaction
  size_t snapshot_records = 5000;                   // log records between snapshots
  std::chrono::milliseconds refresh_interval{200};  // of queue positions and gauges
  size_t positions_max = 500;  // queued evaluations whose place is kept fresh, oldest first
  std::string version;         // of this program, for people
};

// What the loop works with. Nothing is owned; all of it outlives the loop.
struct LoopParts {
  Store* store = nullptr;
  LoopMailbox* mailbox = nullptr;
  CallTable* calls = nullptr;
  SessionTable* sessions = nullptr;
  EvaluationBoard* board = nullptr;
  LoopMetrics* metrics = nullptr;
};

// Owns the core: takes a batch of events, lets the core decide, makes the decisions durable in one
// transaction, and only then carries them out.
// Threads: every member runs on one thread; events and answers cross in the parts.
class Loop {
 public:
  Loop(const LoopOptions& options, const CoreOptions& core_options, const LoopParts& parts);

  // Rebuilds the state from the store and starts the core. Call once, first.
  absl::Status Recover();

  // Works until `stop` is requested and the mailbox is empty, then leaves a snapshot. An error is
  // the store's: what was not stored was not acknowledged, and the process must end.
  absl::Status Run(const std::stop_token& stop);

 private:
  // What one batch leads to.
  struct Batch {
    StoreBatch store;
    std::vector<Command> effects;
    std::vector<std::pair<RequestId, absl::StatusOr<Reply>>> answers;
    std::map<RequestId, ArtifactRow> artifacts;
    std::vector<std::pair<RequestId, std::string>> published;  // request, key
    std::vector<std::pair<EvaluationId, v1::EvaluationRecord>> ended;
    std::vector<RequestId> workers_asked;
    std::vector<RequestId> load_asked;
  };

  absl::Status RunBatch(std::vector<LoopEvent> events);
  void Take(const Event& event, Batch* batch);
  void Take(const TaskOffered& offered, Batch* batch);
  void Take(const ArtifactOffered& offered, Batch* batch);
  void Take(const WorkersAsked& asked, Batch* batch);
  void Take(const LoadAsked& asked, Batch* batch);
  // Returns whether something was due.
  bool TakeTime(Batch* batch);
  void Collect(std::vector<Command> commands, Batch* batch);
  absl::Status CarryOut(Batch* batch);
  absl::Status ReplaceLog();
  void Refresh(MonoTime now);
  void ShowPosition(EvaluationId id);

  absl::StatusOr<v1::EvaluationRecord> Find(EvaluationId id);
  v1::ListWorkersResponse ListWorkers() const;
  absl::StatusOr<Reply> DescribeLoad();

  // Effects. Whatever is not named is a message to a worker.
  void CarryOut(const AnswerSubmit& command);
  void CarryOut(const AnswerCancel& command);
  void CarryOut(const AnswerDrain& command);
  void CarryOut(const NotifyStage& command);
  void CarryOut(const CloseSession& command);
  void CarryOut(const SendRefused& command);
  void CarryOut(const ObserveQueueWait& command);
  void CarryOut(const CountRetry& command);
  void CarryOut(const ReportCanaries& command);
  // Carried out with their batch.
  void CarryOut(const AppendRecord& /*command*/) {}
  void CarryOut(const AnswerPublish& /*command*/) {}
  void CarryOut(const EndEvaluation& /*command*/) {}
  template <typename Send>
  void CarryOut(const Send& command);

  const LoopOptions options_;
  const LoopParts parts_;
  Core core_;
  std::set<EvaluationId> queued_;  // live and waiting, for the refresh of positions
  size_t records_since_snapshot_ = 0;
  EvaluationId last_watched_;  // whose place was shown last
  bool is_refresh_due_ = true;
  MonoTime last_refresh_;
};

}  // namespace pike::coordinator
