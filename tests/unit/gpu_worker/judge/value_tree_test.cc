#include "gpu_worker/judge/value_tree.h"

#include <string>
#include <vector>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

std::string Difference(const std::string& expected, std::size_t expected_tensors,
                       const std::string& actual, std::size_t actual_tensors) {
  const auto want = ParseValue(expected, expected_tensors);
  const auto got = ParseValue(actual, actual_tensors);
  REQUIRE(want);
  REQUIRE(got);
  std::vector<LeafPair> leaves;
  return PairLeaves(*want, *got, leaves);
}

TEST_CASE("ParseValue: every kind of value is read") {
  const auto value = ParseValue("(TNB1I-7;F3ff8000000000000S3:a;)[T]{S1:bTI2;N})", 3);
  REQUIRE(value);
  REQUIRE(value->children.size() == 8);
  CHECK(value->children[0].kind == ValueKind::kTensor);
  CHECK(value->children[2].integer == 1);
  CHECK(value->children[3].integer == -7);
  CHECK(value->children[4].number == 1.5);
  CHECK(value->children[5].text == "a;)");
  CHECK(value->children[6].children[0].tensor == 1);
  REQUIRE(value->children[7].children.size() == 2);
  CHECK(value->children[7].children[0].key == "['b']");
  CHECK(value->children[7].children[1].key == "[2]");
}

TEST_CASE("ParseValue: malformed text is refused") {
  const std::string text = GENERATE(
      as<std::string>(), "", "TT", "(T", "T)", "X", "B2", "B", "I;", "I1", "I99999999999999999999;",
      "F12", "Fzzzzzzzzzzzzzzzz", "S5:abc", "S-1:a", "S99999999999999999999:a", "{T}", "{TT}",
      "{S1:a}", "{F3ff8000000000000T}", "(((((((((((((((((T)))))))))))))))))");
  CHECK_FALSE(ParseValue(text, 1));
}

TEST_CASE("ParseValue: the number of tensors must be right") {
  CHECK(ParseValue("(TT)", 2));
  CHECK_FALSE(ParseValue("(TT)", 1));
  CHECK_FALSE(ParseValue("(TT)", 3));
}

TEST_CASE("PairLeaves: paths name the places") {
  const auto value = ParseValue("(T{S1:aT}[N])", 2);
  REQUIRE(value);
  std::vector<LeafPair> leaves;
  REQUIRE(PairLeaves(*value, *value, leaves).empty());
  REQUIRE(leaves.size() == 3);
  CHECK(leaves[0].path == "out[0]");
  CHECK(leaves[1].path == "out[1]['a']");
  CHECK(leaves[2].path == "out[2][0]");
}

TEST_CASE("PairLeaves: the order of a dict does not matter, its keys do") {
  CHECK(Difference("{S1:aTS1:bN}", 1, "{S1:bNS1:aT}", 1).empty());
  CHECK(Difference("{S1:aT}", 1, "{S1:bT}", 1) == "out: expected key ['a'], got ['b']");
}

TEST_CASE("PairLeaves: differences of structure are named") {
  CHECK(Difference("(TT)", 2, "(T)", 1) == "out: expected a tuple of 2, got a tuple of 1");
  CHECK(Difference("(TT)", 2, "()", 0) == "out: expected a tuple of 2, got a tuple of 0");
  CHECK(Difference("(T)", 1, "[T]", 1) == "out: expected a tuple of 1, got a list of 1");
  CHECK(Difference("(TN)", 1, "(TB1)", 1) == "out[1]: expected None, got a bool");
  CHECK(Difference("T", 1, "F0000000000000000", 0) == "out: expected a tensor, got a float");
}

TEST_CASE("EscapeText: control bytes and invalid UTF-8 are shown as numbers") {
  CHECK(EscapeText("a\n\xff", 10) == "a\\x0a\\xff");
  CHECK(EscapeText("abcdef", 3) == "abc");
}

}  // namespace
}  // namespace pike::gpu
