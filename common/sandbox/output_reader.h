#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <absl/status/statusor.h>

#include "common/base/unique_fd.h"
#include "common/sandbox/sandbox.h"

namespace pike::sandbox {

// What has come out of one pipe. Threads: any member from any thread.
class OutputStream {
 public:
  virtual ~OutputStream() = default;
  virtual CapturedOutput Snapshot() const = 0;
  // Takes what is in the pipe now and closes it, even if somebody still holds its other end.
  virtual void Finish() = 0;
};

// Reads the output of all sandboxes on one thread, as fast as it comes, so that no writer waits
// for long, and keeps only the start and the end of each stream.
class OutputReader {
 public:
  OutputReader();
  ~OutputReader();
  OutputReader(const OutputReader&) = delete;
  OutputReader& operator=(const OutputReader&) = delete;

  // Reads `pipe` until its end or Finish, which must come before the reader is destroyed.
  absl::StatusOr<std::shared_ptr<OutputStream>> Add(UniqueFd pipe, size_t head_bytes_max,
                                                    size_t tail_bytes_max);

  class Impl;

 private:
  const std::unique_ptr<Impl> impl_;
};

}  // namespace pike::sandbox
