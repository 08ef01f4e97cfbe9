#include "coordinator/store/sqlite_connection.h"

#include <sqlite3.h>

#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"

namespace pike::coordinator {

absl::Status SqliteStatus(int code, absl::string_view path, absl::string_view detail) {
  const std::string what = absl::StrCat("store ", path, ": ", EscapeLine(detail));
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(absl::StrCat(
          what, "; free space on its disk and start again, nothing acknowledged is lost"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(
          what, "; the file is damaged: restore a backup, or move it away to start empty"));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return absl::UnavailableError(
          absl::StrCat(what, "; check that the folder exists and belongs to this user"));
    default:
      return absl::UnavailableError(absl::StrCat(what, " (SQLite code ", code, ")"));
  }
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string detail =
        database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
    sqlite3_close(database);
    return SqliteStatus(code, path, detail);
  }
  sqlite3_extended_result_codes(database, 1);
  sqlite3_busy_timeout(database, 10000);
  return std::unique_ptr<SqliteConnection>(new SqliteConnection(database, path));
}

SqliteConnection::SqliteConnection(sqlite3* database, std::string path)
    : database_(database), path_(std::move(path)) {}

SqliteConnection::~SqliteConnection() {
  sqlite3_close_v2(database_);
}

absl::Status SqliteConnection::LastError(int code) const {
  return SqliteStatus(code, path_, sqlite3_errmsg(database_));
}

absl::Status SqliteConnection::Execute(const char* sql) {
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : LastError(code);
}

absl::StatusOr<int64_t> SqliteConnection::QueryInteger(const char* sql) {
  ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool has_row, statement.Step());
  return has_row ? statement.ColumnInteger(0) : 0;
}

absl::StatusOr<std::string> SqliteConnection::QueryText(const char* sql) {
  ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool has_row, statement.Step());
  std::string text;
  if (has_row)
    text = statement.ColumnBytes(0);
  return text;
}

absl::StatusOr<SqliteStatement> SqliteConnection::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(database_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK)
    return LastError(code);
  return SqliteStatement(this, statement);
}

SqliteStatement::SqliteStatement(SqliteConnection* connection, sqlite3_stmt* statement)
    : connection_(connection), statement_(statement) {}

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : connection_(other.connection_), statement_(std::exchange(other.statement_, nullptr)) {}

SqliteStatement& SqliteStatement::operator=(SqliteStatement&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(statement_, other.statement_);
  return *this;
}

SqliteStatement::~SqliteStatement() {
  sqlite3_finalize(statement_);
}

SqliteStatement& SqliteStatement::BindText(int parameter, absl::string_view text) {
  const int code = sqlite3_bind_text64(statement_, parameter, text.data(), text.size(),
                                       SQLITE_TRANSIENT, SQLITE_UTF8);
  PIKE_CHECK(code == SQLITE_OK);
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(int parameter, absl::string_view bytes) {
  // A null pointer would bind NULL instead of an empty blob.
  const char* data = bytes.empty() ? "" : bytes.data();
  const int code = sqlite3_bind_blob64(statement_, parameter, data, bytes.size(), SQLITE_TRANSIENT);
  PIKE_CHECK(code == SQLITE_OK);
  return *this;
}

SqliteStatement& SqliteStatement::BindInteger(int parameter, int64_t value) {
  PIKE_CHECK(sqlite3_bind_int64(statement_, parameter, value) == SQLITE_OK);
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW)
    return true;
  absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : connection_->LastError(code);
  Reset();
  if (!status.ok())
    return status;
  return false;
}

absl::Status SqliteStatement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, Step());
    if (!has_row)
      return absl::OkStatus();
  }
}

void SqliteStatement::Reset() {
  // The code of a failed Step is repeated here and was reported there.
  static_cast<void>(sqlite3_reset(statement_));
}

std::string SqliteStatement::ColumnBytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return size == 0 ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

int64_t SqliteStatement::ColumnInteger(int column) const {
  return sqlite3_column_int64(statement_, column);
}

}  // namespace pike::coordinator
