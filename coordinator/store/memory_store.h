#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/base/mutex.h"
#include "coordinator/store/store.h"

namespace pike::coordinator {

// What survives a MemoryStore: the disk of the fake. Thread-safe.
class MemoryDisk {
 public:
  // The append after `appends` more successful ones fails with `status` and stores nothing.
  void FailAppend(size_t appends, absl::Status status);

 private:
  friend class MemoryStore;

  Mutex mutex_;
  StoredState state_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, EvaluationRow> evaluations_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, TaskRow> tasks_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ArtifactRow> artifacts_ ABSL_GUARDED_BY(mutex_);
  std::optional<size_t> appends_until_failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// Store for tests: the contract without a disk, with faults on demand. Opening another one on the
// same MemoryDisk is a restart.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryDisk> disk);

  absl::StatusOr<StoredState> Load() override;
  absl::Status Append(const StoreBatch& batch) override;
  absl::Status ReplaceLog(const std::vector<std::string>& snapshot) override;
  absl::StatusOr<EvaluationRow> GetEvaluation(absl::string_view evaluation_id) override;
  absl::StatusOr<std::vector<EvaluationRow>> ListEvaluations(const EvaluationQuery& query) override;
  absl::StatusOr<TaskRow> GetTask(absl::string_view version) override;
  absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::optional<ListPosition>& after,
                                                 size_t rows_max) override;
  absl::StatusOr<ArtifactRow> GetArtifact(absl::string_view key) override;

 private:
  const std::shared_ptr<MemoryDisk> disk_;
  absl::Status failure_;  // loop thread only
};

}  // namespace pike::coordinator
