#include "gpu_worker/supervisor/jit_caches.h"

#include <fcntl.h>

#include <filesystem>
#include <memory>
#include <string>

#include <absl/strings/str_cat.h>

#include "common/base/file.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

constexpr size_t kBytes = 10'000;  // of a folder's one file

class CachesFixture {
 public:
  explicit CachesFixture(size_t count_max = 10, int64_t bytes_max = 1'000'000,
                         int64_t entry_bytes_max = 100'000) {
    REQUIRE(folder.ok());
    JitCachesOptions options{folder->path(), bytes_max, count_max, entry_bytes_max};
    auto made = JitCaches::Create(options);
    REQUIRE(made.ok());
    caches = *std::move(made);
  }

  // A folder with one file.
  UniqueFd Folder(const std::string& text) const {
    const std::string path = absl::StrCat(folder->path(), "/from_", text);
    std::filesystem::create_directory(path);
    REQUIRE(WriteFileAtomic(path + "/kernel", text + std::string(kBytes, ' '), 0600).ok());
    auto opened = OpenFolderAt(AT_FDCWD, path);
    REQUIRE(opened.ok());
    return *std::move(opened);
  }
  static std::string TextOf(const std::shared_ptr<const JitCaches::Entry>& entry) {
    REQUIRE(entry != nullptr);
    const std::string path = absl::StrCat("/proc/self/fd/", entry->folder().get(), "/kernel");
    return ReadFile(path, 2 * kBytes).value_or("gone").substr(0, 4);
  }

  absl::StatusOr<TempFolder> folder = TempFolder::Create("pike-jit");
  std::unique_ptr<JitCaches> caches;
};

TEST_CASE("JitCaches: a copy is kept, for its key only") {
  const CachesFixture fixture;
  fixture.caches->Put("a", fixture.Folder("one."));
  // Neither the same key again nor a change of the original matters.
  fixture.caches->Put("a", fixture.Folder("two."));
  std::filesystem::remove_all(fixture.folder->path() + "/from_one.");
  CHECK(fixture.TextOf(fixture.caches->Get("a")) == "one.");
  CHECK(fixture.caches->Get("b") == nullptr);
}

TEST_CASE("JitCaches: the least recently used goes, but not from under its reader") {
  const CachesFixture by_count(2);
  const CachesFixture by_bytes(10, 2 * (kBytes + 5'000));
  for (const CachesFixture* fixture : {&by_count, &by_bytes}) {
    fixture->caches->Put("a", fixture->Folder("aaaa"));
    fixture->caches->Put("b", fixture->Folder("bbbb"));
    const auto reader = fixture->caches->Get("b");
    CHECK(fixture->caches->Get("a") != nullptr);
    fixture->caches->Put("c", fixture->Folder("cccc"));
    CHECK(fixture->caches->Get("b") == nullptr);
    CHECK(fixture->TextOf(fixture->caches->Get("a")) == "aaaa");
    CHECK(fixture->TextOf(fixture->caches->Get("c")) == "cccc");
    CHECK(fixture->TextOf(reader) == "bbbb");
  }
}

TEST_CASE("JitCaches: what is too large is not kept, and leaves nothing behind") {
  const CachesFixture fixture(10, 1'000'000, kBytes / 2);
  fixture.caches->Put("a", fixture.Folder("aaaa"));
  CHECK(fixture.caches->Get("a") == nullptr);
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(fixture.folder->path() + "/gpu-worker"))
    files += entry.is_regular_file() && entry.path().filename() == "kernel" ? 1 : 0;
  CHECK(files == 0);
}

TEST_CASE("JitCacheKey: every part of it counts, and no two texts run together") {
  const JitCacheKey key{"source", "task", "toolchain", "h200", "9.0"};
  CHECK(key.Digest() == JitCacheKey{key}.Digest());
  for (const JitCacheKey& other : {JitCacheKey{"source2", "task", "toolchain", "h200", "9.0"},
                                   JitCacheKey{"source", "task2", "toolchain", "h200", "9.0"},
                                   JitCacheKey{"source", "task", "toolchain2", "h200", "9.0"},
                                   JitCacheKey{"source", "task", "toolchain", "h100", "9.0"},
                                   JitCacheKey{"source", "task", "toolchain", "h200", "9.0a"},
                                   JitCacheKey{"sourcet", "ask", "toolchain", "h200", "9.0"}})
    CHECK(other.Digest() != key.Digest());
}

}  // namespace
}  // namespace pike::gpu
