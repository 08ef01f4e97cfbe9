#include "cli/python_finder.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <absl/status/status.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>

#include "cli/up/child_process.h"

namespace pike::cli {
namespace {

namespace fs = std::filesystem;

// build/<preset>/bin lies three folders below a checkout.
constexpr int kFoldersUpMax = 4;

bool IsProgram(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string FindOnPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path != nullptr ? path : "", ':')) {
    const std::string candidate = absl::StrCat(folder, "/", name);
    if (IsProgram(candidate))
      return candidate;
  }
  return "";
}

absl::StatusOr<std::string> FindPython(const std::string& flag) {
  const char* environment = std::getenv("PIKE_PYTHON");
  const std::string named = !flag.empty() ? flag : environment != nullptr ? environment : "";
  if (!named.empty()) {
    // A bare name is looked up as a shell does; workers want a path that holds in any folder.
    const std::string path = absl::StrContains(named, '/') ? named : FindOnPath(named);
    std::error_code error;
    const fs::path absolute = IsProgram(path) ? fs::absolute(path, error) : fs::path();
    if (absolute.empty() || error) {
      return absl::NotFoundError(absl::StrCat("no program ", named,
                                              ": give the path of a Python with "
                                              "PyTorch by --python or PIKE_PYTHON"));
    }
    return absolute.string();
  }
  fs::path folder = ProgramFolder();
  for (int i = 0; i < kFoldersUpMax; i++) {
    const std::string candidate = (folder / ".venv/bin/python").string();
    if (IsProgram(candidate))
      return candidate;
    folder = folder.parent_path();
  }
  const std::string python = FindOnPath("python3");
  if (!python.empty()) {
    const auto end = RunQuietly({python, "-c", "import torch"});
    if (end.ok() && end->exit_status == 0 && end->signal == 0)
      return python;
  }
  return absl::NotFoundError(
      "no Python with PyTorch: run deploy/quickstart, or name one by --python or PIKE_PYTHON");
}

std::string ProgramFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  const std::string path = ProgramFolder() + "/" + name;
  if (!IsProgram(path)) {
    return absl::NotFoundError(
        absl::StrCat("no program ", path, ": build or install all of pike into one folder"));
  }
  return path;
}

}  // namespace pike::cli
