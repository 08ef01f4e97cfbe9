#include "coordinator/store/blob_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/errno_status.h"
#include "common/base/status_macros.h"

namespace pike::coordinator {
namespace {

constexpr char kPartialFolder[] = "/partial";

absl::Status BadDigest(absl::string_view sha256) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed digest of ", sha256.size(),
                   " characters; a digest is SHA-256 as 64 lower-case hex characters"));
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return ErrnoStatus(error.value(), absl::StrCat("create ", path));
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() || ::fsync(folder.get()) != 0)
    return ErrnoStatus(errno, absl::StrCat("sync ", path));
  return absl::OkStatus();
}

std::string ParentOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

}  // namespace

BlobWriter::~BlobWriter() {
  if (!partial_path_.empty())
    ::unlink(partial_path_.c_str());
}

absl::Status BlobWriter::Write(absl::string_view bytes) {
  if (bytes.size() > bytes_max_ - size_bytes_)
    return absl::ResourceExhaustedError(
        absl::StrCat("blob ", sha256_, " is over the limit of ", bytes_max_, " bytes"));
  size_bytes_ += bytes.size();
  digest_->Update(bytes);
  while (file_.is_open() && !bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return ErrnoStatus(errno, absl::StrCat("write blob ", sha256_));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Finish() {
  const std::string actual = digest_->FinishHex();
  if (actual != sha256_)
    return absl::DataLossError(absl::StrCat("blob ", sha256_, ": the ", size_bytes_,
                                            " bytes received have digest ", actual,
                                            "; send them again"));
  if (partial_path_.empty())
    return absl::OkStatus();
  if (::fsync(file_.get()) != 0)
    return ErrnoStatus(errno, absl::StrCat("sync blob ", sha256_));
  RETURN_IF_ERROR(MakeFolder(ParentOf(final_path_)));
  if (::rename(partial_path_.c_str(), final_path_.c_str()) != 0)
    return ErrnoStatus(errno, absl::StrCat("rename blob ", sha256_));
  partial_path_.clear();
  RETURN_IF_ERROR(SyncFolder(ParentOf(final_path_)));
  return SyncFolder(ParentOf(ParentOf(final_path_)));
}

absl::StatusOr<std::string> BlobReader::Read(size_t bytes_max) {
  std::string bytes(bytes_max, '\0');
  while (true) {
    const ssize_t count = ::read(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return ErrnoStatus(errno, absl::StrCat("read blob ", name_));
    bytes.resize(static_cast<size_t>(count));
    return bytes;
  }
}

absl::StatusOr<BlobFolder> BlobFolder::Open(const std::string& path, uint64_t blob_bytes_max,
                                            uint64_t free_bytes_min) {
  std::error_code error;
  std::filesystem::remove_all(path + kPartialFolder, error);
  if (error)
    return ErrnoStatus(error.value(), absl::StrCat("clean ", path, kPartialFolder));
  RETURN_IF_ERROR(MakeFolder(path + kPartialFolder));
  return BlobFolder(path, blob_bytes_max, free_bytes_min);
}

BlobFolder::BlobFolder(std::string path, uint64_t blob_bytes_max, uint64_t free_bytes_min)
    : path_(std::move(path)), blob_bytes_max_(blob_bytes_max), free_bytes_min_(free_bytes_min) {}

absl::Status BlobFolder::CheckSpace() const {
  struct statvfs disk = {};
  if (::statvfs(path_.c_str(), &disk) != 0)
    return ErrnoStatus(errno, absl::StrCat("look at the disk of ", path_));
  if (uint64_t{disk.f_bavail} * disk.f_frsize < free_bytes_min_)
    return absl::ResourceExhaustedError(absl::StrCat("the disk of ", path_, " has less than ",
                                                     free_bytes_min_ >> 20,
                                                     " MiB left; make room, then try again"));
  return absl::OkStatus();
}

std::string BlobFolder::PathOf(absl::string_view sha256) const {
  return absl::StrCat(path_, "/", sha256.substr(0, 2), "/", sha256.substr(2));
}

absl::StatusOr<BlobWriter> BlobFolder::NewWriter(absl::string_view sha256) const {
  if (!IsSha256Hex(sha256))
    return BadDigest(sha256);
  BlobWriter writer;
  writer.sha256_ = std::string(sha256);
  writer.final_path_ = PathOf(sha256);
  writer.digest_ = std::make_unique<Sha256Stream>();
  writer.bytes_max_ = blob_bytes_max_;
  if (Contains(sha256))
    return writer;
  RETURN_IF_ERROR(CheckSpace());
  std::string path = absl::StrCat(path_, kPartialFolder, "/XXXXXX");
  writer.file_ = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
  if (!writer.file_.is_open())
    return ErrnoStatus(errno, absl::StrCat("create a file in ", path_, kPartialFolder));
  writer.partial_path_ = std::move(path);
  return writer;
}

absl::StatusOr<std::string> BlobFolder::Put(absl::string_view bytes) const {
  std::string sha256 = Sha256Hex(bytes);
  if (Contains(sha256))
    return sha256;
  ASSIGN_OR_RETURN(BlobWriter writer, NewWriter(sha256));
  RETURN_IF_ERROR(writer.Write(bytes));
  RETURN_IF_ERROR(writer.Finish());
  return sha256;
}

absl::StatusOr<BlobReader> BlobFolder::NewReader(absl::string_view sha256) const {
  if (!IsSha256Hex(sha256))
    return BadDigest(sha256);
  BlobReader reader;
  reader.name_ = std::string(sha256);
  reader.file_ = UniqueFd(::open(PathOf(sha256).c_str(), O_RDONLY | O_CLOEXEC));
  if (!reader.file_.is_open() && errno == ENOENT)
    return absl::NotFoundError(absl::StrCat("no blob ", sha256, "; write it first"));
  struct stat file = {};
  if (!reader.file_.is_open() || ::fstat(reader.file_.get(), &file) != 0)
    return ErrnoStatus(errno, absl::StrCat("open blob ", sha256));
  reader.size_bytes_ = static_cast<uint64_t>(file.st_size);
  return reader;
}

bool BlobFolder::Contains(absl::string_view sha256) const {
  return IsSha256Hex(sha256) && ::access(PathOf(sha256).c_str(), F_OK) == 0;
}

}  // namespace pike::coordinator
