#pragma once

#include <absl/strings/string_view.h>

namespace pike {

enum class LogLevel { kInfo, kWarning, kError };

// Writes one line to standard error: "<UTC time> <level> <process>: <message>". Control characters
// in `message` are escaped, so that untrusted text cannot forge lines. Thread-safe.
void Log(LogLevel level, absl::string_view message);

// Sets the process name of log lines. Call once, before other threads start.
void SetLogName(absl::string_view name);

inline void LogInfo(absl::string_view message) {
  Log(LogLevel::kInfo, message);
}
inline void LogWarning(absl::string_view message) {
  Log(LogLevel::kWarning, message);
}
inline void LogError(absl::string_view message) {
  Log(LogLevel::kError, message);
}

}  // namespace pike
