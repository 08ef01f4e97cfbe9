#include "coordinator/store/sqlite_store.h"

#include <limits>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"

namespace pike::coordinator {
namespace {

constexpr int64_t kApplicationId = 0x50494b45;  // "PIKE"
constexpr int64_t kSchemaVersion = 1;

constexpr char kSchema[] = R"sql(
CREATE TABLE log(sequence INTEGER PRIMARY KEY AUTOINCREMENT, record BLOB NOT NULL);
CREATE TABLE snapshot(sequence INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE evaluations(evaluation_id TEXT PRIMARY KEY, submitted_unix_ms INTEGER NOT NULL,
                         task_version TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX evaluations_by_time ON evaluations(submitted_unix_ms, evaluation_id);
CREATE INDEX evaluations_by_task ON evaluations(task_version, submitted_unix_ms, evaluation_id);
CREATE TABLE tasks(version TEXT PRIMARY KEY, registered_unix_ms INTEGER NOT NULL,
                   record BLOB NOT NULL);
CREATE INDEX tasks_by_time ON tasks(registered_unix_ms, version);
CREATE TABLE artifacts(key TEXT PRIMARY KEY, artifact_sha256 TEXT NOT NULL,
                       toolchain_digest TEXT NOT NULL);
)sql";

absl::Status CreateSchema(SqliteConnection* connection) {
  const std::string sql =
      absl::StrCat("BEGIN IMMEDIATE;", kSchema, "PRAGMA application_id=", kApplicationId,
                   ";PRAGMA user_version=", kSchemaVersion, ";COMMIT;");
  return connection->Execute(sql.c_str());
}

// A new file gets the schema; an old one must be ours, of this version, and undamaged.
absl::Status CheckSchema(SqliteConnection* connection, const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t application, connection->QueryInteger("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, connection->QueryInteger("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t tables,
                   connection->QueryInteger("SELECT COUNT(*) FROM sqlite_schema"));
  if (application == 0 && version == 0 && tables == 0)
    return CreateSchema(connection);
  if (application != kApplicationId)
    return absl::FailedPreconditionError(absl::StrCat(
        "store ", path, ": this is another program's database; choose another --store folder"));
  if (version != kSchemaVersion)
    return absl::FailedPreconditionError(
        absl::StrCat("store ", path, ": schema version ", version, " but this pike reads version ",
                     kSchemaVersion, "; use the matching pike, or choose another --store folder"));
  ASSIGN_OR_RETURN(const std::string damage,
                   connection->QueryText("SELECT quick_check FROM pragma_quick_check(1) "
                                         "WHERE quick_check <> 'ok'"));
  if (!damage.empty())
    return absl::DataLossError(
        absl::StrCat("store ", path, ": ", damage.substr(0, damage.find('\n')),
                     "; the file is damaged: restore a backup, or move it away to start empty"));
  return absl::OkStatus();
}

ListPosition Newest() {
  // No id of ours begins with a byte above 'z'.
  return {.unix_ms = std::numeric_limits<int64_t>::max(), .id = "~"};
}

EvaluationRow ReadEvaluation(const SqliteStatement& statement) {
  return {.evaluation_id = statement.ColumnBytes(0),
          .submitted_unix_ms = statement.ColumnInteger(1),
          .task_version = statement.ColumnBytes(2),
          .record = statement.ColumnBytes(3)};
}

TaskRow ReadTask(const SqliteStatement& statement) {
  return {.version = statement.ColumnBytes(0),
          .registered_unix_ms = statement.ColumnInteger(1),
          .record = statement.ColumnBytes(2)};
}

absl::StatusOr<std::vector<std::string>> ReadRecords(SqliteConnection* connection,
                                                     const char* sql) {
  ASSIGN_OR_RETURN(SqliteStatement statement, connection->Prepare(sql));
  std::vector<std::string> records;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row)
      return records;
    records.push_back(statement.ColumnBytes(0));
  }
}

}  // namespace

absl::StatusOr<SqliteStore::Writer> SqliteStore::OpenWriter(const SqliteStoreOptions& options) {
  Writer writer;
  ASSIGN_OR_RETURN(writer.connection, SqliteConnection::Open(options.path));
  SqliteConnection* connection = writer.connection.get();
  RETURN_IF_ERROR(connection->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"));
  RETURN_IF_ERROR(CheckSchema(connection, options.path));
  if (options.pages_max > 0) {
    const std::string sql = absl::StrCat("PRAGMA max_page_count=", options.pages_max);
    RETURN_IF_ERROR(connection->Execute(sql.c_str()));
  }
  ASSIGN_OR_RETURN(writer.append_record, connection->Prepare("INSERT INTO log(record) VALUES(?1)"));
  ASSIGN_OR_RETURN(writer.put_evaluation,
                   connection->Prepare("INSERT OR REPLACE INTO evaluations VALUES(?1,?2,?3,?4)"));
  ASSIGN_OR_RETURN(writer.put_task,
                   connection->Prepare("INSERT OR IGNORE INTO tasks VALUES(?1,?2,?3)"));
  ASSIGN_OR_RETURN(writer.put_artifact,
                   connection->Prepare("INSERT OR IGNORE INTO artifacts VALUES(?1,?2,?3)"));
  ASSIGN_OR_RETURN(writer.put_snapshot, connection->Prepare("INSERT INTO snapshot VALUES(?1,?2)"));
  return writer;
}

absl::StatusOr<SqliteStore::Reader> SqliteStore::OpenReader(const SqliteStoreOptions& options) {
  Reader reader;
  ASSIGN_OR_RETURN(reader.connection, SqliteConnection::Open(options.path));
  SqliteConnection* connection = reader.connection.get();
  RETURN_IF_ERROR(connection->Execute("PRAGMA query_only=ON"));
  ASSIGN_OR_RETURN(
      reader.get_evaluation,
      connection->Prepare("SELECT evaluation_id, submitted_unix_ms, task_version, record "
                          "FROM evaluations WHERE evaluation_id=?1"));
  ASSIGN_OR_RETURN(
      reader.list_evaluations,
      connection->Prepare("SELECT evaluation_id, submitted_unix_ms, task_version, record "
                          "FROM evaluations WHERE (submitted_unix_ms, evaluation_id) < (?1, ?2) "
                          "ORDER BY submitted_unix_ms DESC, evaluation_id DESC LIMIT ?3"));
  ASSIGN_OR_RETURN(
      reader.list_task_evaluations,
      connection->Prepare("SELECT evaluation_id, submitted_unix_ms, task_version, record "
                          "FROM evaluations WHERE task_version=?4 AND "
                          "(submitted_unix_ms, evaluation_id) < (?1, ?2) "
                          "ORDER BY submitted_unix_ms DESC, evaluation_id DESC LIMIT ?3"));
  ASSIGN_OR_RETURN(reader.get_task,
                   connection->Prepare(
                       "SELECT version, registered_unix_ms, record FROM tasks WHERE version=?1"));
  ASSIGN_OR_RETURN(reader.list_tasks,
                   connection->Prepare("SELECT version, registered_unix_ms, record FROM tasks "
                                       "WHERE (registered_unix_ms, version) < (?1, ?2) "
                                       "ORDER BY registered_unix_ms DESC, version DESC LIMIT ?3"));
  ASSIGN_OR_RETURN(
      reader.get_artifact,
      connection->Prepare("SELECT key, artifact_sha256, toolchain_digest FROM artifacts "
                          "WHERE key=?1"));
  return reader;
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const SqliteStoreOptions& options) {
  // The writer comes first: it creates the tables that the reader's statements name.
  ASSIGN_OR_RETURN(Writer writer, OpenWriter(options));
  ASSIGN_OR_RETURN(Reader reader, OpenReader(options));
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(writer), std::move(reader)));
}

SqliteStore::SqliteStore(Writer writer, Reader reader)
    : writer_(std::move(writer)), reader_(std::move(reader)) {}

absl::StatusOr<StoredState> SqliteStore::Load() {
  StoredState state;
  ASSIGN_OR_RETURN(state.snapshot, ReadRecords(writer_.connection.get(),
                                               "SELECT record FROM snapshot ORDER BY sequence"));
  ASSIGN_OR_RETURN(
      state.log, ReadRecords(writer_.connection.get(), "SELECT record FROM log ORDER BY sequence"));
  return state;
}

absl::Status SqliteStore::Append(const StoreBatch& batch) {
  RETURN_IF_ERROR(writer_.failure);
  if (batch.IsEmpty())
    return absl::OkStatus();
  return EndTransaction(WriteBatch(batch));
}

absl::Status SqliteStore::ReplaceLog(const std::vector<std::string>& snapshot) {
  RETURN_IF_ERROR(writer_.failure);
  return EndTransaction(WriteSnapshot(snapshot));
}

absl::Status SqliteStore::WriteBatch(const StoreBatch& batch) {
  RETURN_IF_ERROR(writer_.connection->Execute("BEGIN IMMEDIATE"));
  for (const std::string& record : batch.records)
    RETURN_IF_ERROR(writer_.append_record.BindBlob(1, record).Run());
  for (const EvaluationRow& row : batch.evaluations) {
    writer_.put_evaluation.BindText(1, row.evaluation_id)
        .BindInteger(2, row.submitted_unix_ms)
        .BindText(3, row.task_version)
        .BindBlob(4, row.record);
    RETURN_IF_ERROR(writer_.put_evaluation.Run());
  }
  for (const TaskRow& row : batch.tasks) {
    writer_.put_task.BindText(1, row.version)
        .BindInteger(2, row.registered_unix_ms)
        .BindBlob(3, row.record);
    RETURN_IF_ERROR(writer_.put_task.Run());
  }
  for (const ArtifactRow& row : batch.artifacts) {
    writer_.put_artifact.BindText(1, row.key)
        .BindText(2, row.artifact_sha256)
        .BindText(3, row.toolchain_digest);
    RETURN_IF_ERROR(writer_.put_artifact.Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::WriteSnapshot(const std::vector<std::string>& snapshot) {
  RETURN_IF_ERROR(
      writer_.connection->Execute("BEGIN IMMEDIATE; DELETE FROM snapshot; DELETE FROM log"));
  for (size_t i = 0; i < snapshot.size(); ++i) {
    writer_.put_snapshot.BindInteger(1, static_cast<int64_t>(i)).BindBlob(2, snapshot[i]);
    RETURN_IF_ERROR(writer_.put_snapshot.Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::EndTransaction(const absl::Status& written) {
  absl::Status status = written.ok() ? writer_.connection->Execute("COMMIT") : written;
  if (status.ok())
    return status;
  writer_.failure = status;
  // SQLite has already rolled back after some errors; then this fails, and rightly.
  static_cast<void>(writer_.connection->Execute("ROLLBACK"));
  return status;
}

absl::StatusOr<EvaluationRow> SqliteStore::GetEvaluation(absl::string_view evaluation_id) {
  MutexLock lock(&reader_mutex_);
  SqliteStatement& statement = reader_.get_evaluation;
  ASSIGN_OR_RETURN(const bool has_row, statement.BindText(1, evaluation_id).Step());
  if (!has_row)
    return absl::NotFoundError(absl::StrCat("no evaluation ", evaluation_id));
  EvaluationRow row = ReadEvaluation(statement);
  statement.Reset();
  return row;
}

absl::StatusOr<std::vector<EvaluationRow>> SqliteStore::ListEvaluations(
    const EvaluationQuery& query) {
  MutexLock lock(&reader_mutex_);
  const ListPosition after = query.after.value_or(Newest());
  SqliteStatement& statement =
      query.task_version.empty() ? reader_.list_evaluations : reader_.list_task_evaluations;
  statement.BindInteger(1, after.unix_ms)
      .BindText(2, after.id)
      .BindInteger(3, static_cast<int64_t>(query.rows_max));
  if (!query.task_version.empty())
    statement.BindText(4, query.task_version);
  std::vector<EvaluationRow> rows;
  size_t bytes = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row)
      return rows;
    rows.push_back(ReadEvaluation(statement));
    bytes += rows.back().record.size();
    if (bytes > query.bytes_max) {
      statement.Reset();
      return rows;
    }
  }
}

absl::StatusOr<TaskRow> SqliteStore::GetTask(absl::string_view version) {
  MutexLock lock(&reader_mutex_);
  ASSIGN_OR_RETURN(const bool has_row, reader_.get_task.BindText(1, version).Step());
  if (!has_row)
    return absl::NotFoundError(absl::StrCat("no task ", version));
  TaskRow row = ReadTask(reader_.get_task);
  reader_.get_task.Reset();
  return row;
}

absl::StatusOr<std::vector<TaskRow>> SqliteStore::ListTasks(
    const std::optional<ListPosition>& after, size_t rows_max) {
  MutexLock lock(&reader_mutex_);
  const ListPosition start = after.value_or(Newest());
  SqliteStatement& statement = reader_.list_tasks;
  statement.BindInteger(1, start.unix_ms)
      .BindText(2, start.id)
      .BindInteger(3, static_cast<int64_t>(rows_max));
  std::vector<TaskRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row)
      return rows;
    rows.push_back(ReadTask(statement));
  }
}

absl::StatusOr<ArtifactRow> SqliteStore::GetArtifact(absl::string_view key) {
  MutexLock lock(&reader_mutex_);
  SqliteStatement& statement = reader_.get_artifact;
  ASSIGN_OR_RETURN(const bool has_row, statement.BindText(1, key).Step());
  if (!has_row)
    return absl::NotFoundError(absl::StrCat("no artifact for key ", key));
  ArtifactRow row = {.key = statement.ColumnBytes(0),
                     .artifact_sha256 = statement.ColumnBytes(1),
                     .toolchain_digest = statement.ColumnBytes(2)};
  statement.Reset();
  return row;
}

}  // namespace pike::coordinator
