#include "common/build/build_record.h"

#include <memory>
#include <string>

#include "tests/testing/catch.h"

namespace pike::build {
namespace {

BuildOutcome Failed(const std::string& output) {
  auto failure = std::make_shared<BuildFailure>();
  failure->tool = "g++";
  failure->first_error = "expected ';'";
  failure->exit_status = 1;
  failure->stdout_text = {output, output, 4 * output.size()};
  failure->stderr_text = failure->stdout_text;
  BuildOutcome outcome;
  outcome.failure = std::move(failure);
  return outcome;
}

TEST_CASE("BuildRecord: output that grows by escaping stays within its bound") {
  const v1::BuildRecord record = ToBuildRecord(Failed(std::string(64 << 10, '\0')), "ext", false);
  CHECK(record.error().stderr_tail().head().size() <= 16 << 10);
  CHECK(record.error().stderr_tail().tail().size() <= 16 << 10);
  CHECK(record.error().stderr_tail().bytes_total() == 256 << 10);
}

TEST_CASE("BuildRecord: of a long output the first and the last bytes are kept") {
  const std::string middle(64 << 10, 'm');
  const v1::BuildRecord record = ToBuildRecord(Failed("first" + middle + "last"), "ext", false);
  CHECK(record.error().stdout_tail().head().substr(0, 5) == "first");
  const std::string& tail = record.error().stdout_tail().tail();
  CHECK(tail.substr(tail.size() - 4) == "last");
  CHECK(ToBuildRecord(Failed("short"), "ext", false).error().stdout_tail().head() == "short");
}

TEST_CASE("BuildRecord: many failed builds together stay small, and each says what was wrong") {
  google::protobuf::RepeatedPtrField<v1::BuildRecord> records;
  for (int build = 0; build < 64; ++build)
    *records.Add() = ToBuildRecord(Failed(std::string(64 << 10, '\0')), "ext", false);
  BoundOutputs(&records);
  size_t bytes = 0;
  for (const v1::BuildRecord& record : records) {
    bytes += record.ByteSizeLong();
    CHECK(record.error().first_error() == "expected ';'");
  }
  CHECK(bytes < 1 << 20);
  CHECK(records[0].error().has_stderr_tail());
  CHECK_FALSE(records[63].error().has_stderr_tail());
}

}  // namespace
}  // namespace pike::build
