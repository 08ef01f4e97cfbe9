#include <chrono>
#include <future>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mailbox.h"
#include "common/base/run_on_stop.h"
#include "common/base/text.h"
#include "tests/testing/catch.h"

namespace pike {
namespace {

TEST_CASE("Sha256Hex: the standard's example", "[common]") {
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(IsSha256Hex(Sha256Hex("")));
  CHECK_FALSE(IsSha256Hex("abc"));
  CHECK_FALSE(IsSha256Hex(std::string(64, 'G')));
}

TEST_CASE("EscapeUntrusted: what is not printable UTF-8 is escaped", "[common]") {
  CHECK(EscapeUntrusted("a\nb\x1b[0m\xff", 100) == "a\nb\\x1b[0m\\xff");
  CHECK(EscapeUntrusted("h\xc3\xa9", 100) == "h\xc3\xa9");
  CHECK(EscapeUntrusted("\xed\xa0\x80", 100) == "\\xed\\xa0\\x80");
  CHECK(EscapeUntrusted("abcdef", 3) == "abc");
  CHECK(EscapeLine("a\nb") == "a\\nb");
}

TEST_CASE("RunOnStop: whoever stops does not wait for what the stop costs", "[common]") {
  std::promise<void> may_end;
  std::promise<void> has_begun;
  bool has_ended = false;
  std::stop_source source;
  {
    const RunOnStop slow(source.get_token(), [&] {
      has_begun.set_value();
      may_end.get_future().wait();
      has_ended = true;
    });
    source.request_stop();  // returns, though `slow` cannot end before the next line
    has_begun.get_future().wait();
    may_end.set_value();
  }
  CHECK(has_ended);
}

TEST_CASE("RunOnStop: without a stop nothing runs, with an early one it does", "[common]") {
  int runs = 0;
  std::stop_source source;
  {
    const RunOnStop unused(source.get_token(), [&runs] { ++runs; });
  }
  CHECK(runs == 0);
  source.request_stop();
  CHECK(runs == 0);
  {
    const RunOnStop late(source.get_token(), [&runs] { ++runs; });
  }
  CHECK(runs == 1);
}

TEST_CASE("Mailbox: a full one refuses and a closed one still drains", "[common]") {
  Mailbox<int> mailbox(2);
  CHECK(mailbox.TryPush(1));
  CHECK(mailbox.TryPush(2));
  CHECK_FALSE(mailbox.TryPush(3));
  mailbox.Close();
  CHECK_FALSE(mailbox.TryPush(4));
  const auto batch = mailbox.TakeBatch(10, std::chrono::steady_clock::now());
  CHECK((batch == std::vector<int>{1, 2}));
}

TEST_CASE("WriteFileAtomic: replaces a file and leaves nothing beside it", "[common]") {
  auto folder = TempFolder::Create("pike_base_test");
  REQUIRE(folder.ok());
  const std::string path = folder->path() + "/f";
  REQUIRE(WriteFileAtomic(path, "one").ok());
  REQUIRE(WriteFileAtomic(path, "two").ok());
  CHECK(ReadFile(path, 100).value() == "two");
  CHECK(ReadFile(path, 2).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReadFile(folder->path() + "/none", 2).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace pike
