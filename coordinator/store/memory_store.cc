#include "coordinator/store/memory_store.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"

namespace pike::coordinator {
namespace {

// Newest first, strictly after `after`, at most `rows_max`.
template <typename Row, typename Key>
std::vector<Row> NewestFirst(std::vector<Row> rows, const std::optional<ListPosition>& after,
                             size_t rows_max, Key key) {
  if (after.has_value()) {
    const auto limit = std::make_tuple(after->unix_ms, after->id);
    std::erase_if(rows, [&](const Row& row) { return !(key(row) < limit); });
  }
  std::ranges::sort(rows, std::ranges::greater(), key);
  if (rows.size() > rows_max)
    rows.resize(rows_max);
  return rows;
}

template <typename Row>
absl::StatusOr<Row> Find(const std::map<std::string, Row>& rows, absl::string_view key,
                         const char* what) {
  const auto it = rows.find(std::string(key));
  if (it == rows.end())
    return absl::NotFoundError(absl::StrCat("no ", what, " ", key));
  return it->second;
}

}  // namespace

void MemoryDisk::FailAppend(size_t appends, absl::Status status) {
  MutexLock lock(&mutex_);
  appends_until_failure_ = appends;
  failure_ = std::move(status);
}

MemoryStore::MemoryStore(std::shared_ptr<MemoryDisk> disk) : disk_(std::move(disk)) {}

absl::StatusOr<StoredState> MemoryStore::Load() {
  MutexLock lock(&disk_->mutex_);
  return disk_->state_;
}

absl::Status MemoryStore::Append(const StoreBatch& batch) {
  RETURN_IF_ERROR(failure_);
  MutexLock lock(&disk_->mutex_);
  if (disk_->appends_until_failure_.has_value() && (*disk_->appends_until_failure_)-- == 0) {
    disk_->appends_until_failure_.reset();
    failure_ = disk_->failure_;
    return failure_;
  }
  auto& log = disk_->state_.log;
  log.insert(log.end(), batch.records.begin(), batch.records.end());
  for (const EvaluationRow& row : batch.evaluations)
    disk_->evaluations_.insert_or_assign(row.evaluation_id, row);
  for (const TaskRow& row : batch.tasks)
    disk_->tasks_.emplace(row.version, row);
  for (const ArtifactRow& row : batch.artifacts)
    disk_->artifacts_.emplace(row.key, row);
  return absl::OkStatus();
}

absl::Status MemoryStore::ReplaceLog(const std::vector<std::string>& snapshot) {
  RETURN_IF_ERROR(failure_);
  MutexLock lock(&disk_->mutex_);
  disk_->state_ = {.snapshot = snapshot, .log = {}};
  return absl::OkStatus();
}

absl::StatusOr<EvaluationRow> MemoryStore::GetEvaluation(absl::string_view evaluation_id) {
  MutexLock lock(&disk_->mutex_);
  return Find(disk_->evaluations_, evaluation_id, "evaluation");
}

absl::StatusOr<std::vector<EvaluationRow>> MemoryStore::ListEvaluations(
    const EvaluationQuery& query) {
  std::vector<EvaluationRow> rows;
  {
    MutexLock lock(&disk_->mutex_);
    for (const auto& [id, row] : disk_->evaluations_) {
      if (query.task_version.empty() || query.task_version == row.task_version)
        rows.push_back(row);
    }
  }
  rows = NewestFirst(std::move(rows), query.after, query.rows_max, [](const EvaluationRow& row) {
    return std::make_tuple(row.submitted_unix_ms, row.evaluation_id);
  });
  size_t bytes = 0;
  for (size_t count = 0; count < rows.size(); ++count) {
    if (bytes > query.bytes_max) {
      rows.resize(count);
      break;
    }
    bytes += rows[count].record.size();
  }
  return rows;
}

absl::StatusOr<TaskRow> MemoryStore::GetTask(absl::string_view version) {
  MutexLock lock(&disk_->mutex_);
  return Find(disk_->tasks_, version, "task");
}

absl::StatusOr<std::vector<TaskRow>> MemoryStore::ListTasks(
    const std::optional<ListPosition>& after, size_t rows_max) {
  std::vector<TaskRow> rows;
  {
    MutexLock lock(&disk_->mutex_);
    for (const auto& [version, row] : disk_->tasks_)
      rows.push_back(row);
  }
  return NewestFirst(std::move(rows), after, rows_max, [](const TaskRow& row) {
    return std::make_tuple(row.registered_unix_ms, row.version);
  });
}

absl::StatusOr<ArtifactRow> MemoryStore::GetArtifact(absl::string_view key) {
  MutexLock lock(&disk_->mutex_);
  return Find(disk_->artifacts_, key, "artifact for key");
}

}  // namespace pike::coordinator
