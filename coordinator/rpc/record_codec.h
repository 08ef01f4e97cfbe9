#pragma once

#include <string>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "coordinator/core/record.h"

namespace pike::coordinator {

// The log's bytes (pike.store.v1.LogRecord) of a record, and back. DataLoss: not bytes that
// EncodeRecord makes.
std::string EncodeRecord(const Record& record);
absl::StatusOr<Record> DecodeRecord(absl::string_view bytes);

}  // namespace pike::coordinator
