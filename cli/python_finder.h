#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace pike::cli {

// The Python that workers use: `flag` if given, else $PIKE_PYTHON, else .venv/bin/python in a
// folder above this program (a checkout's own), else python3 of PATH if it imports torch. NotFound
// says what to do. May run `python3 -c "import torch"`, which takes seconds.
absl::StatusOr<std::string> FindPython(const std::string& flag);

// First program `name` of PATH; empty if there is none.
std::string FindOnPath(const std::string& name);

// Folder of the running program.
std::string ProgramFolder();

// The program `name` beside the running one. NotFound if it is not there.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace pike::cli
