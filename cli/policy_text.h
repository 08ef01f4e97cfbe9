#pragma once

#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include "pike/v1/types.pb.h"

namespace pike::cli {

// Sets one field of `policy` from "key=value", for example "call_timeout_ms=5000"; "tolerances"
// adds one, as in "tolerances=float16:1e-2:1e-2". Values are
// checked for form only; the service checks ranges. InvalidArgument names the known fields or the
// expected kind of value.
absl::Status SetPolicyField(absl::string_view assignment, v1::Policy* policy);

// Names of the fields SetPolicyField knows.
std::vector<std::string> PolicyFieldNames();

}  // namespace pike::cli
