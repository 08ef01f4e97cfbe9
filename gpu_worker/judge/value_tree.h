#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pike::gpu {

enum class ValueKind { kTensor, kNone, kBool, kInt, kFloat, kStr, kTuple, kList, kDict };

// An argument or output as described by CallRecord::text. Children of a dict are sorted by key.
struct ValueNode {
  ValueKind kind = ValueKind::kNone;
  int64_t integer = 0;     // kBool, kInt
  double number = 0;       // kFloat
  std::string text;        // kStr
  std::size_t tensor = 0;  // kTensor: index into CallRecord::tensors
  std::string key;         // place in the parent, as in "[0]" or "['mask']"; may hold any bytes
  std::vector<ValueNode> children;
};

// Parses untrusted text: nothing unless it is exactly one value that uses exactly `tensor_count`
// tensors. Nesting is at most 16 deep.
std::optional<ValueNode> ParseValue(std::string_view text, std::size_t tensor_count);

// Two leaves at the same place of two values of one structure.
struct LeafPair {
  std::string path;  // "out", "out[0]", "out['mask']"; control bytes escaped
  const ValueNode* expected;
  const ValueNode* actual;
};

// Pairs the leaves of both; pointers are into the arguments. Returns the first difference of
// structure in one line, empty if there is none. Values of leaves are not compared.
std::string PairLeaves(const ValueNode& expected, const ValueNode& actual,
                       std::vector<LeafPair>& leaves);

// Printable ASCII, everything else as \xNN, at most `bytes_max` bytes of `text`.
std::string EscapeText(std::string_view text, std::size_t bytes_max);

}  // namespace pike::gpu
