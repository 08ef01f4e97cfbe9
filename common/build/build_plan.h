#pragma once

#include <string>
#include <vector>

#include <absl/strings/string_view.h>

#include "common/build/build_request.h"
#include "common/build/toolchain.h"

namespace pike::build {

// One run of a tool.
struct BuildStep {
  std::string tool;               // "g++", "nvcc" or "link"
  std::vector<std::string> argv;  // absolute program first; file names relative to the work folder
  std::string source;             // file it compiles; empty for the link
};

// What a build sandbox has to run, in order: one compilation per source, then the link.
struct BuildPlan {
  std::vector<BuildStep> steps;
  std::string output;  // the artifact, relative to the work folder
};

// The commands torch.utils.cpp_extension would have had ninja run for this request, toolchain and
// architecture: same macros, include paths, C++ standard, libraries and order of flags. Two wanted
// differences: the architecture is `arch` ("cpu": PTX and code for sm_90, so that the build can be
// checked without a GPU), whatever the candidate's environment says; and debug sections are not
// cut, nor anything else added, so an artifact behaves as a stock one does.
// Pure. REQUIRES: CheckBuildRequest(request) is OK.
BuildPlan MakeBuildPlan(const BuildRequest& request, const ToolchainPaths& paths,
                        absl::string_view arch);

// Splits text as a POSIX shell splits words: blanks, quotes and backslashes; nothing is expanded.
// (ninja gives stock flags to a shell, so "-I a -O2" in one string is three words there.)
std::vector<std::string> SplitShellWords(absl::string_view text);

}  // namespace pike::build
