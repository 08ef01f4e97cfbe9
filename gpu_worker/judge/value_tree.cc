#include "gpu_worker/judge/value_tree.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <utility>

namespace pike::gpu {
namespace {

constexpr int kDepthMax = 16;
constexpr std::size_t kKeyBytesShown = 80;

class ValueParser {
 public:
  explicit ValueParser(std::string_view text) : rest_(text) {}

  bool Parse(ValueNode& node, int depth) {
    if (rest_.empty() || depth > kDepthMax)
      return false;
    const char tag = Take();
    switch (tag) {
      case 'T':
        node.kind = ValueKind::kTensor;
        node.tensor = tensors_++;
        return true;
      case 'N':
        node.kind = ValueKind::kNone;
        return true;
      case 'B':
        return ParseBool(node);
      case 'I':
        node.kind = ValueKind::kInt;
        return ParseNumber(node.integer, ';', /*base=*/10);
      case 'F':
        return ParseFloat(node);
      case 'S':
        node.kind = ValueKind::kStr;
        return ParseStr(node.text);
      case '(':
        node.kind = ValueKind::kTuple;
        return ParseSequence(node, ')', depth);
      case '[':
        node.kind = ValueKind::kList;
        return ParseSequence(node, ']', depth);
      case '{':
        node.kind = ValueKind::kDict;
        return ParseDict(node, depth);
      default:
        return false;
    }
  }

  bool is_at_end() const { return rest_.empty(); }
  std::size_t tensors() const { return tensors_; }

 private:
  char Take() {
    const char first = rest_.front();
    rest_.remove_prefix(1);
    return first;
  }

  bool TakeIf(char wanted) {
    if (rest_.empty() || rest_.front() != wanted)
      return false;
    rest_.remove_prefix(1);
    return true;
  }

  template <typename Number>
  bool ParseNumber(Number& number, char end, int base) {
    const auto [stop, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), number, base);
    if (error != std::errc())
      return false;
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    return TakeIf(end);
  }

  bool ParseBool(ValueNode& node) {
    node.kind = ValueKind::kBool;
    if (TakeIf('1')) {
      node.integer = 1;
      return true;
    }
    return TakeIf('0');
  }

  bool ParseFloat(ValueNode& node) {
    constexpr std::size_t kDigits = 16;
    node.kind = ValueKind::kFloat;
    if (rest_.size() < kDigits)
      return false;
    uint64_t bits = 0;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + kDigits, bits, 16);
    if (error != std::errc() || stop != rest_.data() + kDigits)
      return false;
    rest_.remove_prefix(kDigits);
    node.number = std::bit_cast<double>(bits);
    return true;
  }

  bool ParseStr(std::string& text) {
    std::size_t bytes = 0;
    if (!ParseNumber(bytes, ':', /*base=*/10) || bytes > rest_.size())
      return false;
    text = std::string(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return true;
  }

  bool ParseSequence(ValueNode& node, char end, int depth) {
    while (!TakeIf(end)) {
      ValueNode child;
      if (!Parse(child, depth + 1))
        return false;
      child.key = "[" + std::to_string(node.children.size()) + "]";
      node.children.push_back(std::move(child));
    }
    return true;
  }

  bool ParseDict(ValueNode& node, int depth) {
    while (!TakeIf('}')) {
      ValueNode key;
      ValueNode child;
      if (!Parse(key, depth + 1) || (key.kind != ValueKind::kStr && key.kind != ValueKind::kInt) ||
          !Parse(child, depth + 1))
        return false;
      child.key = key.kind == ValueKind::kStr ? "['" + key.text + "']"
                                              : "[" + std::to_string(key.integer) + "]";
      node.children.push_back(std::move(child));
    }
    std::sort(node.children.begin(), node.children.end(),
              [](const ValueNode& a, const ValueNode& b) { return a.key < b.key; });
    return true;
  }

  std::string_view rest_;
  std::size_t tensors_ = 0;
};

std::string Describe(const ValueNode& node) {
  const std::string count = std::to_string(node.children.size());
  switch (node.kind) {
    case ValueKind::kTensor:
      return "a tensor";
    case ValueKind::kNone:
      return "None";
    case ValueKind::kBool:
      return "a bool";
    case ValueKind::kInt:
      return "an int";
    case ValueKind::kFloat:
      return "a float";
    case ValueKind::kStr:
      return "a str";
    case ValueKind::kTuple:
      return "a tuple of " + count;
    case ValueKind::kList:
      return "a list of " + count;
    case ValueKind::kDict:
      return "a dict of " + count;
  }
  return "?";
}

}  // namespace

std::optional<ValueNode> ParseValue(std::string_view text, std::size_t tensor_count) {
  ValueParser parser(text);
  ValueNode root;
  if (!parser.Parse(root, /*depth=*/0) || !parser.is_at_end() || parser.tensors() != tensor_count)
    return std::nullopt;
  return root;
}

namespace {

std::string PairAt(const std::string& path, const ValueNode& expected, const ValueNode& actual,
                   std::vector<LeafPair>& leaves) {
  if (expected.kind != actual.kind || expected.children.size() != actual.children.size())
    return path + ": expected " + Describe(expected) + ", got " + Describe(actual);
  switch (expected.kind) {
    case ValueKind::kTuple:
    case ValueKind::kList:
    case ValueKind::kDict:
      break;
    default:
      leaves.push_back({path, &expected, &actual});
      return "";
  }
  for (std::size_t i = 0; i < expected.children.size(); ++i) {
    const ValueNode& child = expected.children[i];
    if (child.key != actual.children[i].key) {
      return path + ": expected key " + EscapeText(child.key, kKeyBytesShown) + ", got " +
             EscapeText(actual.children[i].key, kKeyBytesShown);
    }
    std::string difference =
        PairAt(path + EscapeText(child.key, kKeyBytesShown), child, actual.children[i], leaves);
    if (!difference.empty())
      return difference;
  }
  return "";
}

}  // namespace

std::string PairLeaves(const ValueNode& expected, const ValueNode& actual,
                       std::vector<LeafPair>& leaves) {
  return PairAt("out", expected, actual, leaves);
}

std::string EscapeText(std::string_view text, std::size_t bytes_max) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string escaped;
  for (const char c : text.substr(0, bytes_max)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      escaped += c;
    } else {
      escaped += "\\x";
      escaped += kHex[byte >> 4];
      escaped += kHex[byte & 15];
    }
  }
  return escaped;
}

}  // namespace pike::gpu
