#pragma once

#include <cstddef>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace pike {

// Reads a whole file. ResourceExhausted if it is larger than `bytes_max`.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max);

// Writes `bytes` to a temporary name beside `path`, syncs it and renames it: readers see the old
// file, the new one or none. `mode` is the file's permission bits.
absl::Status WriteFileAtomic(const std::string& path, absl::string_view bytes,
                             unsigned mode = 0644);

// A temporary folder (under TMPDIR or /tmp), mode 0700, removed with its contents by the
// destructor.
class TempFolder {
 public:
  static absl::StatusOr<TempFolder> Create(absl::string_view prefix);
  TempFolder(TempFolder&& other) noexcept;
  TempFolder& operator=(TempFolder&& other) noexcept;
  ~TempFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace pike
