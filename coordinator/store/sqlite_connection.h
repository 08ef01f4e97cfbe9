#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

struct sqlite3;
struct sqlite3_stmt;

namespace pike::coordinator {

// The one conversion of SQLite's result codes: FULL is ResourceExhausted, CORRUPT and NOTADB are
// DataLoss, everything else Unavailable. The message is one line that says what to do.
absl::Status SqliteStatus(int code, absl::string_view path, absl::string_view detail);

class SqliteStatement;

// Owns one SQLite connection. Not thread-safe.
class SqliteConnection {
 public:
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path);
  ~SqliteConnection();
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;

  // Runs statements without parameters or rows.
  absl::Status Execute(const char* sql);
  // Runs a statement that yields one integer (a PRAGMA, a COUNT).
  absl::StatusOr<int64_t> QueryInteger(const char* sql);
  // Runs a statement that yields one text.
  absl::StatusOr<std::string> QueryText(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(const char* sql);
  absl::Status LastError(int code) const;

 private:
  SqliteConnection(sqlite3* database, std::string path);

  sqlite3* const database_;
  const std::string path_;
};

// A prepared statement; must not outlive its connection. Parameters count from 1, columns from 0.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  SqliteStatement(SqliteConnection* connection, sqlite3_stmt* statement);
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&& other) noexcept;
  ~SqliteStatement();

  // The bytes are copied.
  SqliteStatement& BindText(int parameter, absl::string_view text);
  SqliteStatement& BindBlob(int parameter, absl::string_view bytes);
  SqliteStatement& BindInteger(int parameter, int64_t value);

  // True: a row is there. False: the statement is done, and reset for its next use.
  absl::StatusOr<bool> Step();
  // Runs to the end, ignoring rows.
  absl::Status Run();
  void Reset();

  std::string ColumnBytes(int column) const;
  int64_t ColumnInteger(int column) const;

 private:
  SqliteConnection* connection_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace pike::coordinator
