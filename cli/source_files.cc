#include "cli/source_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include "cli/format.h"
#include "common/base/file.h"

namespace pike::cli {
namespace {

namespace fs = std::filesystem;

bool IsHidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.empty() || name[0] == '.' || name == "__pycache__";
}

bool IsPythonFile(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_regular_file(error) && entry.path().extension() == ".py" &&
         !IsHidden(entry.path());
}

// Appends the files of `folder` and, if `is_deep`, of its subfolders.
absl::Status Collect(const fs::path& folder, bool is_deep, std::vector<std::string>* files) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;  // an entry that vanished meanwhile is neither file nor folder
    if (IsPythonFile(*it))
      files->push_back(it->path().string());
    const bool is_folder = it->is_directory(ignored) && !it->is_symlink(ignored);
    if (is_deep && is_folder && !IsHidden(it->path())) {
      const absl::Status status = Collect(it->path(), is_deep, files);
      if (!status.ok())
        return status;
    }
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot list folder ", folder.string(), ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadSource(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    return absl::NotFoundError(absl::StrCat("no file ", path, ": check the path"));
  if (fs::is_directory(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a folder; for a whole folder use --suite and --candidates"));
  }
  absl::StatusOr<std::string> source = ReadFile(path, kSourceBytesMax);
  if (absl::IsResourceExhausted(source.status())) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is larger than ", FormatBytes(kSourceBytesMax), ", the most a source may have"));
  }
  if (source.ok() && source->empty())
    return absl::InvalidArgumentError(absl::StrCat(path, " is empty"));
  return source;
}

absl::StatusOr<std::vector<std::string>> ListPythonFiles(const std::string& folder, bool is_deep) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return absl::NotFoundError(absl::StrCat("no folder ", folder, ": check the path"));
  std::vector<std::string> files;
  const absl::Status status = Collect(folder, is_deep, &files);
  if (!status.ok())
    return status;
  if (files.empty()) {
    std::string hint;
    std::vector<std::string> deep_files;
    if (!is_deep && Collect(folder, true, &deep_files).ok() && !deep_files.empty()) {
      const std::string& first = *std::min_element(deep_files.begin(), deep_files.end());
      hint = absl::StrCat("; there are some in ", fs::path(first).parent_path().string());
    }
    return absl::InvalidArgumentError(
        absl::StrCat("no Python file (*.py) in folder ", folder, hint));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace pike::cli
