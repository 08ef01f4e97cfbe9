#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace pike::cli {

// The Python that workers use: `flag` if given, else $PIKE_PYTHON, else the first that has torch
// of: the active virtual or conda environment, .venv in a folder above this program (a checkout's
// or a bundle's own), python3 of PATH. NotFound says what to do. Runs interpreters to ask them.
absl::StatusOr<std::string> FindPython(const std::string& flag);

// First program `name` of PATH; empty if there is none.
std::string FindOnPath(const std::string& name);

// Folder of the running program.
std::string ProgramFolder();

// The program `name` beside the running one. NotFound if it is not there.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace pike::cli
