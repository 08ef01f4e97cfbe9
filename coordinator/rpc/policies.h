#pragma once

#include <vector>

#include <absl/strings/string_view.h>

#include "pike/v1/types.pb.h"

// The built-in policies as data. Pure.
namespace pike::coordinator {

// Completes what a policy says about right and wrong from the built-in one that it names: `atol`,
// `rtol`, `tolerances`, `precision` and `precision_slack`. What it sets itself stays; an `atol` or
// `rtol` of its own also replaces those of built-in tolerances by dtype. False: there is no policy
// of this name.
bool CompleteFromBuiltIn(v1::Policy* policy);

std::vector<absl::string_view> BuiltInPolicyNames();

}  // namespace pike::coordinator
