#include "gpu_worker/supervisor/folder_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/file.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

namespace fs = std::filesystem;

class TwoFolders {
 public:
  TwoFolders() {
    REQUIRE(folder.ok());
    fs::create_directories(from_path() + "/triton/abc");
    fs::create_directories(to_path());
    REQUIRE(WriteFileAtomic(from_path() + "/triton/abc/kernel.cubin", "code", 0600).ok());
    REQUIRE(WriteFileAtomic(from_path() + "/x.best_config", "{}", 0600).ok());
    REQUIRE(WriteFileAtomic(from_path() + "/launcher.so", "elf", 0700).ok());
    fs::create_symlink("/etc/passwd", from_path() + "/link");
    fs::create_directory_symlink("/etc", from_path() + "/folder_link");
    REQUIRE(::mkfifo((from_path() + "/fifo").c_str(), 0600) == 0);
  }
  std::string from_path() const { return folder->path() + "/from"; }
  std::string to_path() const { return folder->path() + "/to"; }
  absl::StatusOr<int64_t> Copy(const FolderCopyOptions& options) const {
    auto from = OpenFolderAt(AT_FDCWD, from_path());
    auto to = OpenFolderAt(AT_FDCWD, to_path());
    REQUIRE(from.ok());
    REQUIRE(to.ok());
    return CopyFolder(*from, *to, options);
  }

  absl::StatusOr<TempFolder> folder = TempFolder::Create("pike-copy");
};

TEST_CASE("CopyFolder: files and folders, but nothing that leads elsewhere") {
  const TwoFolders two;
  FolderCopyOptions options;
  options.owner = ::geteuid();
  options.skip = [](absl::string_view name) { return name == "x.best_config"; };
  // Two folders, two files of seven bytes, and three names that are left out.
  CHECK(two.Copy(options).value_or(0) == 7 * 4096 + 7);
  CHECK(ReadFile(two.to_path() + "/triton/abc/kernel.cubin", 100).value_or("") == "code");
  CHECK(::access((two.to_path() + "/launcher.so").c_str(), X_OK) == 0);
  for (const char* name : {"/x.best_config", "/link", "/folder_link", "/fifo"})
    CHECK_FALSE(fs::exists(fs::symlink_status(two.to_path() + name)));
}

TEST_CASE("CopyFolder: its bounds hold") {
  const TwoFolders two;
  FolderCopyOptions bytes;
  bytes.bytes_max = 5;
  CHECK(absl::IsResourceExhausted(two.Copy(bytes).status()));
  const TwoFolders more;
  FolderCopyOptions entries;
  entries.entries_max = 2;
  CHECK(absl::IsResourceExhausted(more.Copy(entries).status()));
  const TwoFolders deep;
  FolderCopyOptions depth;
  depth.depth_max = 1;
  CHECK(absl::IsResourceExhausted(deep.Copy(depth).status()));
}

}  // namespace
}  // namespace pike::gpu
