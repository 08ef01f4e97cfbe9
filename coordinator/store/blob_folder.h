#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/digest.h"
#include "common/base/unique_fd.h"

namespace pike::coordinator {

// Takes one blob in pieces. A writer that is destroyed before Finish leaves nothing behind.
// Not thread-safe; calls wait for the disk.
class BlobWriter {
 public:
  BlobWriter(BlobWriter&& other) noexcept = default;
  BlobWriter& operator=(BlobWriter&& other) noexcept = delete;
  ~BlobWriter();

  // ResourceExhausted: over the size limit, or no space.
  absl::Status Write(absl::string_view bytes);
  // Makes the blob durable and visible. DataLoss: the bytes do not have the promised digest.
  absl::Status Finish();
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  friend class BlobFolder;
  BlobWriter() = default;

  std::string sha256_;
  std::string final_path_;
  std::string partial_path_;  // empty once renamed, or if the blob is there already
  UniqueFd file_;
  std::unique_ptr<Sha256Stream> digest_;
  uint64_t size_bytes_ = 0;
  uint64_t bytes_max_ = 0;
};

// Reads one blob in pieces. Not thread-safe; calls wait for the disk.
class BlobReader {
 public:
  uint64_t size_bytes() const { return size_bytes_; }
  // The next bytes, at most `bytes_max`; empty at the end.
  absl::StatusOr<std::string> Read(size_t bytes_max);

 private:
  friend class BlobFolder;
  BlobReader() = default;

  std::string name_;
  UniqueFd file_;
  uint64_t size_bytes_ = 0;
};

// Content-addressed files: blobs/ab/cdef... holds the bytes whose SHA-256 is abcdef... A file is
// written under another name, verified, synced and renamed, so what is visible is complete.
// Thread-safe: all state is in the file system.
class BlobFolder {
 public:
  // What is left free for the log, which the coordinator cannot live without.
  static constexpr uint64_t kFreeBytesMin = uint64_t{512} << 20;

  // Creates the folder, and removes what a crash left half-written.
  static absl::StatusOr<BlobFolder> Open(const std::string& path, uint64_t blob_bytes_max,
                                         uint64_t free_bytes_min = kFreeBytesMin);

  // InvalidArgument: malformed digest. ResourceExhausted: less than `free_bytes_min` is free.
  absl::StatusOr<BlobWriter> NewWriter(absl::string_view sha256) const;
  // Stores `bytes` and returns their digest.
  absl::StatusOr<std::string> Put(absl::string_view bytes) const;
  // NotFound: no such blob. InvalidArgument: malformed digest.
  absl::StatusOr<BlobReader> NewReader(absl::string_view sha256) const;
  bool Contains(absl::string_view sha256) const;

 private:
  BlobFolder(std::string path, uint64_t blob_bytes_max, uint64_t free_bytes_min);
  absl::Status CheckSpace() const;
  std::string PathOf(absl::string_view sha256) const;

  std::string path_;
  uint64_t blob_bytes_max_;
  uint64_t free_bytes_min_;
};

}  // namespace pike::coordinator
