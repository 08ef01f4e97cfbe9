#pragma once

#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/unique_fd.h"

namespace pike::gpu {

// A folder for files that sandboxes read: <runtime_dir>/gpu-worker/<pid>-<name>, removed by the
// destructor. Those of dead predecessors are removed when it is made.
class WorkFolder {
 public:
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Create(const std::string& runtime_dir,
                                                            absl::string_view name);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  // Folder of one sandbox, to be bound read-only before it starts and filled in later.
  std::string PathOf(absl::string_view sandbox_name) const;
  absl::Status Make(absl::string_view sandbox_name) const;
  // Readable by the sandbox's uid.
  absl::Status Put(absl::string_view sandbox_name, absl::string_view file,
                   absl::string_view bytes) const;
  void Remove(absl::string_view sandbox_name) const;

 private:
  WorkFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;
  const UniqueFd lock_;  // held while the folder is in use
};

}  // namespace pike::gpu
