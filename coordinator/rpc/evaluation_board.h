#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>

#include "common/base/mutex.h"
#include "coordinator/core/types.h"
#include "coordinator/store/store.h"
#include "pike/v1/evaluation.pb.h"

namespace pike::coordinator {

// One state of an evaluation. A later version replaces an earlier one.
struct ShownEvaluation {
  uint64_t version = 0;
  std::shared_ptr<const v1::EvaluationRecord> record;
};

// Follows one evaluation. Calls may come from several threads and out of order: keep the highest
// version. They must not block.
class EvaluationWatcher {
 public:
  virtual ~EvaluationWatcher() = default;
  virtual void Show(const ShownEvaluation& shown) = 0;
  // Nothing more will be shown.
  virtual void Close(const absl::Status& status) = 0;
};

// The evaluations that have not ended, as people see them: written by the loop, read by gRPC's
// threads. What has left the board is in the store. Thread-safe; watchers are called without a
// lock held.
class EvaluationBoard {
 public:
  // `watchers_max`: more are refused.
  explicit EvaluationBoard(size_t watchers_max) : watchers_max_(watchers_max) {}

  // For the loop. An unchanged record is not shown again.
  void Show(EvaluationId id, v1::EvaluationRecord record);
  // Shows the verdict and forgets. REQUIRES: `record` is in the store.
  void End(EvaluationId id, v1::EvaluationRecord record);
  // At most `count_max` evaluations that someone watches: those after `after`, then from the start.
  std::vector<EvaluationId> Watched(EvaluationId after, size_t count_max) const;
  // Ends all watchers, and those to come.
  void Close(const absl::Status& status);

  // Null if it is not here.
  std::shared_ptr<const v1::EvaluationRecord> Find(EvaluationId id) const;
  // Newest first by (submitted_unix_ms, id); an empty task version means all.
  std::vector<std::shared_ptr<const v1::EvaluationRecord>> List(const EvaluationQuery& query) const;
  size_t size() const;

  // Shows the present state, then every change. NotFound: it is not here, look in the store.
  // ResourceExhausted: too many watchers.
  absl::Status Watch(EvaluationId id, const std::shared_ptr<EvaluationWatcher>& watcher);
  void Unwatch(EvaluationId id, const EvaluationWatcher* watcher);

 private:
  using Watchers = std::vector<std::shared_ptr<EvaluationWatcher>>;
  struct Entry {
    ShownEvaluation shown;
    Watchers watchers;
  };

  const size_t watchers_max_;
  mutable Mutex mutex_;
  std::map<EvaluationId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t watcher_count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pike::coordinator
