#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "pike/v1/admin.pb.h"
#include "pike/v1/types.pb.h"
#include "pike/v1/worker.pb.h"

namespace pike::cli {

// Words for people. Enumerators are shown in lower case without their prefix: "load_error".
std::string VerdictName(v1::VerdictKind kind);
std::string StageName(v1::Stage stage);
std::string BlameName(v1::Blame blame);
std::string WorkerKindName(v1::WorkerKind kind);
std::string WorkerStateName(v1::WorkerState state);

// "812 ms", "4.2 s", "3 min 05 s", "2 h 07 min".
std::string FormatDuration(std::chrono::milliseconds duration);

// Milliseconds with four significant digits, without a unit: "0.1234", "12.34", "1234".
std::string FormatMs(double ms);

// Milliseconds as seconds with one decimal, or two below ten: "0.42", "12.3". Empty for 0.
std::string FormatStageSeconds(double ms);

// "1.23x".
std::string FormatSpeedup(double ratio);

// "1.2e-05"; "0" for no error; "nan" and "inf" as such.
std::string FormatErrorValue(double error);

// "12 B", "3.4 KiB", "1.2 GiB".
std::string FormatBytes(uint64_t bytes);

// UTC, "2026-11-30 18:24:05"; empty for 0.
std::string FormatUnixMs(int64_t unix_ms);

}  // namespace pike::cli
