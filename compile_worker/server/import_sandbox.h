#pragma once

#include <cstdint>
#include <string>

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include "common/build/toolchain.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/spec.h"

namespace pike::compile_worker {

inline constexpr int kFrameFd = 3;
// Where the candidate's file lies inside: a private folder that it may write to.
inline constexpr char kCandidatePath[] = "/tmp/candidate/candidate.py";

// A sandbox that imports torch and waits for a candidate: no GPU, no compiler's folders beyond
// /usr, one thread for numerical libraries.
sandbox::SandboxSpec ImportSandboxSpec(const build::ToolchainPaths& paths,
                                       const std::string& share_dir, int64_t memory_bytes_max);

// Puts the candidate's source into a running sandbox that has not run any of its code yet.
absl::Status PlaceCandidate(const sandbox::Sandbox& sandbox, absl::string_view source);

}  // namespace pike::compile_worker
