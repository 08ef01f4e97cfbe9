#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pike::device {

// The critical errors (Xid numbers) that a driver reported for a GPU since it was first asked.
// Not thread-safe.
class XidLog {
 public:
  static constexpr size_t kKeptMax = 64;

  void Add(uint64_t xid) {
    if (last_.size() >= kKeptMax)
      last_.erase(last_.begin());
    last_.push_back(xid);
    ++total_;
  }
  uint64_t total() const { return total_; }
  // Those after the first `before`, oldest first; only the last kKeptMax are still known.
  std::vector<uint64_t> Since(uint64_t before) const {
    const uint64_t news = total_ - std::min(before, total_);
    const auto count = static_cast<std::ptrdiff_t>(std::min<uint64_t>(news, last_.size()));
    return {last_.end() - count, last_.end()};
  }

 private:
  std::vector<uint64_t> last_;
  uint64_t total_ = 0;
};

// Whether an error of this number is the GPU's own: its memory (48, 63, 64, 92, 94, 95), its link
// (74), its bus (79) or its firmware (119, 120). Others are what programs bring about, as 13 and 31
// (a bad access), 32, 43, 45 and 69, or tell nothing about who did.
inline bool IsDeviceXid(uint64_t xid) {
  switch (xid) {
    case 48:
    case 63:
    case 64:
    case 74:
    case 79:
    case 92:
    case 94:
    case 95:
    case 119:
    case 120:
      return true;
    default:
      return false;
  }
}

}  // namespace pike::device
