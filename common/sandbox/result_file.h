#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "common/base/unique_fd.h"

namespace pike::sandbox {

// A file in memory by which a sandbox returns its result: pass fd() in the spec (PassedFd), let the
// program write to it (say, `cat out.so >&5`), read it after the end. So nothing of a sandbox ever
// lies in a folder of the host. What is written counts as the sandbox's memory and is bounded by
// its `file_bytes_max`.
class ResultFile {
 public:
  static absl::StatusOr<ResultFile> Create();

  int fd() const { return fd_.get(); }

  // The content. ResourceExhausted if it is larger than `bytes_max`. Call it after the sandbox has
  // ended.
  absl::StatusOr<std::string> Read(size_t bytes_max) const;

 private:
  explicit ResultFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace pike::sandbox
