#include "coordinator/store/store.h"

#include <string>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "coordinator/store/blob_folder.h"
#include "coordinator/store/memory_store.h"
#include "coordinator/store/sqlite_connection.h"
#include "coordinator/store/sqlite_store.h"
#include "coordinator/store/store_folder.h"
#include "tests/testing/catch.h"
#include "tests/testing/store_contract.h"

namespace pike::coordinator {
namespace {

struct SqliteFile {
  TempFolder folder = TempFolder::Create("pike-store").value();
  std::string path = folder.path() + "/pike.db";

  std::unique_ptr<Store> Open(int64_t pages_max = 0) const {
    auto store = SqliteStore::Open({.path = path, .pages_max = pages_max});
    REQUIRE(store.ok());
    return std::move(store).value();
  }
};

// Appends until the store refuses. Returns how many appends were acknowledged.
size_t FillUp(Store* store, absl::Status* failure) {
  const std::string record(3000, 'r');
  for (size_t appended = 0;; ++appended) {
    *failure = store->Append({.records = {record}});
    if (!failure->ok())
      return appended;
  }
}

TEST_CASE("SqliteStore: keeps the store contract", "[coordinator][store]") {
  const SqliteFile file;
  CheckStoreContract({.name = "sqlite", .open = [&] { return file.Open(); }});
}

TEST_CASE("MemoryStore: keeps the store contract", "[coordinator][store]") {
  const auto disk = std::make_shared<MemoryDisk>();
  CheckStoreContract(
      {.name = "memory", .open = [&] { return std::make_unique<MemoryStore>(disk); }});
}

TEST_CASE("SqliteStore: a full disk loses nothing acknowledged and stops writes",
          "[coordinator][store]") {
  const SqliteFile file;
  std::unique_ptr<Store> store = file.Open(40);
  absl::Status failure;
  const size_t acknowledged = FillUp(store.get(), &failure);
  CHECK(acknowledged > 0);
  CHECK(failure.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(failure.message()), testing::Contains("free space on its disk"));
  // A later small batch could fit, but would leave a hole in the log.
  CHECK(store->Append({.records = {"x"}}) == failure);
  CHECK(store->ReplaceLog({}) == failure);
  store.reset();
  CHECK(file.Open()->Load().value().log.size() == acknowledged);
}

TEST_CASE("MemoryStore: a failed append stores nothing and stops writes", "[coordinator][store]") {
  const auto disk = std::make_shared<MemoryDisk>();
  MemoryStore store(disk);
  disk->FailAppend(1, absl::ResourceExhaustedError("full"));
  CHECK(store.Append({.records = {"a"}}).ok());
  CHECK(store.Append({.records = {"b"}}).code() == absl::StatusCode::kResourceExhausted);
  CHECK_FALSE(store.Append({.records = {"c"}}).ok());
  MemoryStore reopened(disk);
  CHECK(reopened.Load().value().log == std::vector<std::string>{"a"});
  CHECK(reopened.Append({.records = {"d"}}).ok());
}

TEST_CASE("SqliteStore: a damaged or foreign file is refused with one line",
          "[coordinator][store]") {
  const SqliteFile file;
  SECTION("not a database") {
    REQUIRE(WriteFileAtomic(file.path, std::string(8192, 'z')).ok());
    const auto store = SqliteStore::Open({.path = file.path});
    CHECK(store.status().code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(std::string(store.status().message()), testing::Contains("restore a backup"));
  }
  SECTION("pages overwritten in the middle") {
    absl::Status failure;
    {
      std::unique_ptr<Store> store = file.Open(40);
      FillUp(store.get(), &failure);
    }
    std::string bytes = ReadFile(file.path, 1 << 24).value();
    REQUIRE(bytes.size() > 5 * 4096);
    bytes.replace(4096, 3 * 4096, std::string(3 * 4096, '\x5a'));
    REQUIRE(WriteFileAtomic(file.path, bytes).ok());
    const auto store = SqliteStore::Open({.path = file.path});
    CHECK(store.status().code() == absl::StatusCode::kDataLoss);
  }
  SECTION("a later schema") {
    file.Open().reset();
    auto connection = SqliteConnection::Open(file.path);
    REQUIRE(connection.ok());
    REQUIRE((*connection)->Execute("PRAGMA user_version=99").ok());
    const auto store = SqliteStore::Open({.path = file.path});
    CHECK(store.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(store.status().message()),
               testing::Contains("schema version 99 but this pike reads version 1"));
  }
  SECTION("another program's database") {
    auto connection = SqliteConnection::Open(file.path);
    REQUIRE(connection.ok());
    REQUIRE((*connection)->Execute("CREATE TABLE cats(name TEXT)").ok());
    const auto store = SqliteStore::Open({.path = file.path});
    CHECK(store.status().code() == absl::StatusCode::kFailedPrecondition);
  }
}

TEST_CASE("StoreFolder: a second coordinator is refused until the first is gone",
          "[coordinator][store]") {
  const TempFolder parent = TempFolder::Create("pike-store").value();
  const std::string path = parent.path() + "/a/b";
  {
    const auto first = StoreFolder::Open(path);
    REQUIRE(first.ok());
    const auto second = StoreFolder::Open(path);
    CHECK(second.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(second.status().message()), testing::Contains("another coordinator"));
  }
  CHECK(StoreFolder::Open(path).ok());
}

TEST_CASE("BlobFolder: stores by digest and reads back in pieces", "[coordinator][store]") {
  const TempFolder parent = TempFolder::Create("pike-blobs").value();
  const auto blobs = BlobFolder::Open(parent.path() + "/blobs", 1000);
  REQUIRE(blobs.ok());
  const std::string bytes(700, 'b');
  const auto sha256 = blobs->Put(bytes);
  REQUIRE(sha256.ok());
  CHECK(*sha256 == Sha256Hex(bytes));
  CHECK(blobs->Put(bytes).value() == *sha256);
  CHECK(ReadFile(parent.path() + "/blobs/" + sha256->substr(0, 2) + "/" + sha256->substr(2), 1000)
            .value() == bytes);
  auto reader = blobs->NewReader(*sha256);
  REQUIRE(reader.ok());
  CHECK(reader->size_bytes() == 700);
  CHECK(reader->Read(500).value().size() == 500);
  CHECK(reader->Read(500).value().size() == 200);
  CHECK(reader->Read(500).value().empty());
}

TEST_CASE("BlobFolder: refuses wrong digests, oversized and unknown blobs",
          "[coordinator][store]") {
  const TempFolder parent = TempFolder::Create("pike-blobs").value();
  const auto blobs = BlobFolder::Open(parent.path() + "/blobs", 1000);
  REQUIRE(blobs.ok());
  const std::string digest = Sha256Hex("promised");
  CHECK(blobs->NewWriter("../../etc/passwd").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(blobs->NewReader(digest).status().code() == absl::StatusCode::kNotFound);
  {
    auto writer = blobs->NewWriter(digest);
    REQUIRE(writer.ok());
    CHECK(writer->Write("something else").ok());
    CHECK(writer->Finish().code() == absl::StatusCode::kDataLoss);
  }
  {
    auto writer = blobs->NewWriter(digest);
    REQUIRE(writer.ok());
    CHECK(writer->Write(std::string(1000, 'x')).ok());
    CHECK(writer->Write("x").code() == absl::StatusCode::kResourceExhausted);
  }
  CHECK_FALSE(blobs->Contains(digest));
}

TEST_CASE("BlobFolder: a disk that is nearly full takes no more", "[coordinator][store]") {
  const TempFolder parent = TempFolder::Create("pike-blobs").value();
  const std::string bytes = "kept";
  CHECK(BlobFolder::Open(parent.path() + "/blobs", 1000)->Put(bytes).ok());
  const auto full = BlobFolder::Open(parent.path() + "/blobs", 1000, uint64_t{1} << 60);
  CHECK(full->Put(bytes).ok());
  CHECK(full->Put("other").status().code() == absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace pike::coordinator
