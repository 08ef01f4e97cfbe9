#pragma once

#include <absl/strings/string_view.h>

namespace pike::gpu {

// Whether a source seems to compile at run time, so that a throw-away load that fills its caches is
// worth its while. A plain look at the text: it decides about time, never about a verdict.
bool LooksCompiledAtRunTime(absl::string_view source);

// Whether a file or folder of a compile cache, by its name, may hold what was chosen by timing.
// Such choices were made in company, so they are made again where the candidate has the device.
bool MayHoldTimedChoice(absl::string_view name, absl::string_view source);

}  // namespace pike::gpu
