#pragma once

#include <cstdio>
#include <cstdlib>

// PIKE_CHECK ends the process on a bug of ours, in release builds too. It is never for input.
#define PIKE_CHECK(condition)                              \
  do {                                                     \
    if (!(condition))                                      \
      ::pike::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)

namespace pike {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "CHECK failed: %s at %s:%d\n", condition, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace pike
