#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace pike::coordinator {

// An ended evaluation as the library keeps it. `record` is a serialised pike.v1.EvaluationRecord.
struct EvaluationRow {
  std::string evaluation_id;
  int64_t submitted_unix_ms = 0;
  std::string task_version;
  std::string record;
};

// A registered task. `record` is a serialised pike.v1.TaskRecord.
struct TaskRow {
  std::string version;
  int64_t registered_unix_ms = 0;
  std::string record;
};

// A finished build. The first row of a key stays.
struct ArtifactRow {
  std::string key;
  std::string artifact_sha256;
  std::string toolchain_digest;
};

// What one append makes durable, all or nothing. `records` are appended to the log in order.
// Rows are keyed by evaluation id, version and key: an evaluation replaces its row, a task or an
// artifact that exists stays as it is.
struct StoreBatch {
  std::vector<std::string> records;
  std::vector<EvaluationRow> evaluations;
  std::vector<TaskRow> tasks;
  std::vector<ArtifactRow> artifacts;

  bool IsEmpty() const {
    return records.empty() && evaluations.empty() && tasks.empty() && artifacts.empty();
  }
};

// Everything that rebuilds the coordinator's state: apply `snapshot`, then `log`, in order.
struct StoredState {
  std::vector<std::string> snapshot;
  std::vector<std::string> log;
};

// A position in a newest-first listing: rows strictly older than (unix_ms, id) follow.
struct ListPosition {
  int64_t unix_ms = 0;
  std::string id;
};

// `task_version` filters if it is not empty; at most `rows_max` rows after `after`, and no more
// once their records have more than `bytes_max` bytes.
struct EvaluationQuery {
  std::optional<ListPosition> after;
  std::string task_version;
  size_t rows_max = 100;
  size_t bytes_max = std::numeric_limits<size_t>::max();
};

// The coordinator's durable state: a log of opaque records with a snapshot that shortens it, and
// the tables people read: ended evaluations, tasks, artifacts.
//
// Threads: Load, Append and ReplaceLog are for one thread (the loop); the look-ups are for any.
// Blocking: all calls may wait for the disk.
// Errors: NotFound from look-ups; otherwise ResourceExhausted (no space), DataLoss (damaged),
// Unavailable (cannot be reached), each with one line that says what to do. After a failed Append
// nothing of its batch is stored, and the store accepts no further writes: a caller that cannot
// store must stop, because its memory is now ahead of the truth.
class Store {
 public:
  virtual ~Store() = default;

  virtual absl::StatusOr<StoredState> Load() = 0;
  // Returns once `batch` survives a crash of the process and of the machine.
  virtual absl::Status Append(const StoreBatch& batch) = 0;
  // Makes `snapshot` the new start and forgets the log before it, all or nothing.
  virtual absl::Status ReplaceLog(const std::vector<std::string>& snapshot) = 0;

  virtual absl::StatusOr<EvaluationRow> GetEvaluation(absl::string_view evaluation_id) = 0;
  // Newest first by (submitted_unix_ms, evaluation_id).
  virtual absl::StatusOr<std::vector<EvaluationRow>> ListEvaluations(
      const EvaluationQuery& query) = 0;
  virtual absl::StatusOr<TaskRow> GetTask(absl::string_view version) = 0;
  // Newest first by (registered_unix_ms, version).
  virtual absl::StatusOr<std::vector<TaskRow>> ListTasks(const std::optional<ListPosition>& after,
                                                         size_t rows_max) = 0;
  virtual absl::StatusOr<ArtifactRow> GetArtifact(absl::string_view key) = 0;
};

}  // namespace pike::coordinator
