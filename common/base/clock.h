#pragma once

#include <chrono>
#include <cstdint>

namespace pike {

using MonoTime = std::chrono::steady_clock::time_point;  // ordering and deadlines
using WallTime = std::chrono::system_clock::time_point;  // records shown to people

inline MonoTime MonoNow() {
  return std::chrono::steady_clock::now();
}
inline WallTime WallNow() {
  return std::chrono::system_clock::now();
}

inline int64_t ToUnixMs(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

inline double ToMs(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace pike
