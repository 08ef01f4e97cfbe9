#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace pike::cli {

inline constexpr size_t kSourceBytesMax = 1 << 20;  // the service takes no more

// Reads a task or candidate. Errors name the file and say what to do: NotFound, InvalidArgument (a
// folder, empty, too large).
absl::StatusOr<std::string> ReadSource(const std::string& path);

// The Python files of a folder, sorted by path; hidden ones and __pycache__ left out. `is_deep`:
// those of its subfolders too. Symbolic links to folders are not followed. NotFound: no such
// folder. InvalidArgument: no Python file in it.
absl::StatusOr<std::vector<std::string>> ListPythonFiles(const std::string& folder, bool is_deep);

}  // namespace pike::cli
