#pragma once

#include <cstddef>
#include <string>

#include <absl/strings/string_view.h>

namespace pike {

// Makes untrusted bytes printable UTF-8: control characters except newline and tab, and bytes that
// are not UTF-8, become "\xNN". Stops after `bytes_max` input bytes.
std::string EscapeUntrusted(absl::string_view bytes, size_t bytes_max);

// The same for a message that must stay on one line: newline and tab become "\n" and "\t".
std::string EscapeLine(absl::string_view bytes);

}  // namespace pike
