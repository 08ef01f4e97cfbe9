#pragma once

#include <string>

// Catch2 v2 (Debian 12) and v3 (Ubuntu 24.04) have different headers and two different names: tests
// take Approx and Contains from pike::testing. StartsWith and VectorContains are in Catch::Matchers
// of both.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

namespace pike::testing {

using Catch::Approx;

// Matches a string with `text` in it.
inline auto Contains(const std::string& text) {
  return Catch::Matchers::ContainsSubstring(text);
}

}  // namespace pike::testing
#else
#include <catch2/catch.hpp>

namespace pike::testing {

using Catch::Detail::Approx;

inline auto Contains(const std::string& text) {
  return Catch::Matchers::Contains(text);
}

}  // namespace pike::testing
#endif
