#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>

namespace pike::build {

// The first error that a tool reported.
struct Diagnostic {
  std::string first_error;  // one printable line; empty if no line looks like an error
  std::string file;         // one of the candidate's files, or empty
  uint32_t line = 0;        // 1-based; 0: not known
};

// Finds the first error in the text of g++, nvcc or the linker. Where that error lies in a header
// of the toolchain, `file` and `line` are the first place in one of `candidate_files` that the text
// names. Only for people: no verdict rests on it, since a candidate can make tools print anything.
// Pure; linear in the text; safe on any bytes.
Diagnostic FindFirstError(absl::string_view text, const std::vector<std::string>& candidate_files);

}  // namespace pike::build
