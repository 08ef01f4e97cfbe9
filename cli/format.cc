#include "cli/format.h"

#include <array>
#include <cmath>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_format.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

namespace pike::cli {
namespace {

// An enumerator that a newer service sends has no name here.
std::string LowerWithoutPrefix(const std::string& name, absl::string_view prefix) {
  if (!absl::StartsWith(name, prefix))
    return "unknown";
  return absl::AsciiStrToLower(name.substr(prefix.size()));
}

}  // namespace

std::string VerdictName(v1::VerdictKind kind) {
  return LowerWithoutPrefix(v1::VerdictKind_Name(kind), "VERDICT_KIND_");
}

std::string StageName(v1::Stage stage) {
  switch (stage) {
    case v1::STAGE_QUEUED_COMPILE:
      return "queued (compile)";
    case v1::STAGE_QUEUED_RUN:
      return "queued (run)";
    default:
      return LowerWithoutPrefix(v1::Stage_Name(stage), "STAGE_");
  }
}

std::string BlameName(v1::Blame blame) {
  return LowerWithoutPrefix(v1::Blame_Name(blame), "BLAME_");
}

std::string WorkerKindName(v1::WorkerKind kind) {
  return LowerWithoutPrefix(v1::WorkerKind_Name(kind), "WORKER_KIND_");
}

std::string WorkerStateName(v1::WorkerState state) {
  return LowerWithoutPrefix(v1::WorkerState_Name(state), "WORKER_STATE_");
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  const int64_t ms = duration.count();
  if (ms < 1000)
    return absl::StrFormat("%d ms", ms);
  if (ms < 60'000)
    return absl::StrFormat("%.1f s", static_cast<double>(ms) / 1e3);
  const int64_t seconds = ms / 1000;
  if (seconds < 3600)
    return absl::StrFormat("%d min %02d s", seconds / 60, seconds % 60);
  return absl::StrFormat("%d h %02d min", seconds / 3600, seconds / 60 % 60);
}

std::string FormatMs(double ms) {
  if (!std::isfinite(ms))
    return absl::StrFormat("%f", ms);
  if (ms >= 1000)
    return absl::StrFormat("%.0f", ms);
  if (ms >= 100)
    return absl::StrFormat("%.1f", ms);
  if (ms >= 10)
    return absl::StrFormat("%.2f", ms);
  if (ms >= 1)
    return absl::StrFormat("%.3f", ms);
  return absl::StrFormat("%.4f", ms);
}

std::string FormatStageSeconds(double ms) {
  if (!(ms > 0))
    return "";
  return ms < 10'000 ? absl::StrFormat("%.2f", ms / 1e3) : absl::StrFormat("%.1f", ms / 1e3);
}

std::string FormatSpeedup(double ratio) {
  return absl::StrFormat("%.2fx", ratio);
}

std::string FormatErrorValue(double error) {
  if (error == 0)
    return "0";
  return absl::StrFormat("%.1e", error);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < kUnits.size(); unit++)
    value /= 1024;
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatUnixMs(int64_t unix_ms) {
  if (unix_ms == 0)
    return "";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

}  // namespace pike::cli
