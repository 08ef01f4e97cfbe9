#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace pike::sandbox {
class Spawner;
}  // namespace pike::sandbox

namespace pike::gpu {

// Compiles judge and runner harness for `python`'s torch with <share_dir>/inside/build_native.py,
// or finds them in `cache_dir` by the toolchain's digest; returns their folder. Takes a minute the
// first time. FailedPrecondition: no compiler, or it failed (its output is on our standard error).
absl::StatusOr<std::string> BuildNativeParts(const std::string& python,
                                             const std::string& share_dir,
                                             const std::string& cache_dir,
                                             sandbox::Spawner* spawner);

}  // namespace pike::gpu
