#include "common/base/log.h"

#include <unistd.h>

#include <string>

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include "common/base/text.h"

namespace pike {
namespace {

std::string& LogName() {
  static std::string name = "pike";
  return name;
}

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace

void SetLogName(absl::string_view name) {
  LogName() = std::string(name);
}

void Log(LogLevel level, absl::string_view message) {
  const std::string line =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()), " ",
                   LevelName(level), " ", LogName(), ": ", EscapeLine(message), "\n");
  // One write, so that lines of several processes on one terminal do not mix.
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

}  // namespace pike
