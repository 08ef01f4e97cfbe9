#include "common/base/text.h"

#include <algorithm>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace pike {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `bytes`; 0 if there is none.
size_t Utf8Length(absl::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto is_tail = [&](size_t i) { return i < bytes.size() && (at(i) & 0xC0) == 0x80; };
  const unsigned char first = at(0);
  if (first < 0x80)
    return 1;
  if (first >= 0xC2 && first <= 0xDF)
    return is_tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!is_tail(1) || !is_tail(2))
      return 0;
    if (first == 0xE0 && at(1) < 0xA0)
      return 0;
    if (first == 0xED && at(1) > 0x9F)
      return 0;  // surrogates
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!is_tail(1) || !is_tail(2) || !is_tail(3))
      return 0;
    if (first == 0xF0 && at(1) < 0x90)
      return 0;
    if (first == 0xF4 && at(1) > 0x8F)
      return 0;
    return 4;
  }
  return 0;
}

std::string Escape(absl::string_view bytes, bool keep_lines) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    const auto first = static_cast<unsigned char>(bytes[0]);
    if (length > 1) {
      // U+0080 to U+009F are control characters too (C2 80 to C2 9F).
      const bool is_c1 = first == 0xC2 && static_cast<unsigned char>(bytes[1]) < 0xA0;
      if (is_c1) {
        absl::StrAppend(&out, absl::StrFormat("\\u%04x", static_cast<unsigned char>(bytes[1])));
      } else {
        out.append(bytes.data(), length);
      }
      bytes.remove_prefix(length);
      continue;
    }
    if (first == '\n' || first == '\t') {
      out += keep_lines ? std::string(1, bytes[0]) : std::string(first == '\n' ? "\\n" : "\\t");
    } else if (length == 0 || first < 0x20 || first == 0x7F) {
      absl::StrAppend(&out, absl::StrFormat("\\x%02x", first));
    } else {
      out += bytes[0];
    }
    bytes.remove_prefix(1);
  }
  return out;
}

}  // namespace

std::string EscapeUntrusted(absl::string_view bytes, size_t bytes_max) {
  return Escape(bytes.substr(0, std::min(bytes.size(), bytes_max)), true);
}

std::string EscapeLine(absl::string_view bytes) {
  return Escape(bytes, false);
}

}  // namespace pike
