#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/base/mutex.h"
#include "coordinator/store/sqlite_connection.h"
#include "coordinator/store/store.h"

namespace pike::coordinator {

struct SqliteStoreOptions {
  std::string path;  // the database file; its folder must exist
  // Largest size of the file in pages of 4 KiB; 0 means as large as the disk allows.
  int64_t pages_max = 0;
};

// Store in one SQLite file: write-ahead log, synchronous=FULL, one transaction per Append.
// Two connections, so that look-ups never wait for a commit.
class SqliteStore final : public Store {
 public:
  // FailedPrecondition: the file was written by another version or another program.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const SqliteStoreOptions& options);
  ~SqliteStore() override = default;

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
  struct Writer {
    std::unique_ptr<SqliteConnection> connection;
    SqliteStatement append_record, put_evaluation, put_task, put_artifact, put_snapshot;
    absl::Status failure;  // the first failed write, given to all later ones
  };
  struct Reader {
    std::unique_ptr<SqliteConnection> connection;
    SqliteStatement get_evaluation, list_evaluations, list_task_evaluations;
    SqliteStatement get_task, list_tasks, get_artifact;
  };

  SqliteStore(Writer writer, Reader reader);
  static absl::StatusOr<Writer> OpenWriter(const SqliteStoreOptions& options);
  static absl::StatusOr<Reader> OpenReader(const SqliteStoreOptions& options);
  absl::Status WriteBatch(const StoreBatch& batch);
  absl::Status WriteSnapshot(const std::vector<std::string>& snapshot);
  // Ends the open transaction: commits if `written` is OK, else rolls back and remembers it.
  absl::Status EndTransaction(const absl::Status& written);

  Writer writer_;  // loop thread only
  Mutex reader_mutex_;
  Reader reader_ ABSL_GUARDED_BY(reader_mutex_);
};

}  // namespace pike::coordinator
