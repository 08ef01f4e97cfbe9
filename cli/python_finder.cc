#include "cli/python_finder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include <absl/status/status.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
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

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Interpreters that may have torch, best guess first.
std::vector<std::string> PythonsHere() {
  std::vector<std::string> pythons;
  const auto add = [&pythons](const std::string& python) {
    if (IsProgram(python) && std::find(pythons.begin(), pythons.end(), python) == pythons.end())
      pythons.push_back(python);
  };
  for (const char* environment : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string folder = Variable(environment);
    if (!folder.empty())
      add(folder + "/bin/python");
  }
  fs::path folder = ProgramFolder();
  for (int i = 0; i < kFoldersUpMax; i++) {
    add((folder / ".venv/bin/python").string());
    folder = folder.parent_path();
  }
  add(FindOnPath("python3"));
  return pythons;
}

// Without an import of torch, which takes seconds. As workers start it: a Python that knows -P
// (3.11), without the packages of the user's home folder, which no sandbox shows.
bool HasTorch(const std::string& python) {
  const auto end = RunQuietly(
      {python, "-s", "-P", "-c",
       "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"});
  return end.ok() && end->exit_status == 0 && end->signal == 0;
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
  const std::string named = !flag.empty() ? flag : Variable("PIKE_PYTHON");
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
  const std::vector<std::string> pythons = PythonsHere();
  for (const std::string& python : pythons) {
    if (HasTorch(python))
      return python;
  }
  const std::string venv = (fs::path(ProgramFolder()).parent_path() / ".venv").string();
  return absl::NotFoundError(absl::StrCat(
      "no Python >= 3.11 with PyTorch (looked at ",
      pythons.empty() ? "PATH, there is no python3" : absl::StrJoin(pythons, ", "),
      "): activate one, or name it by --python or PIKE_PYTHON, or make one: python3 -m venv '",
      venv, "' && '", venv, "/bin/pip' install torch numpy einops"));
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
