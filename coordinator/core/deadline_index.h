#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace pike::coordinator {

// At most one deadline per key, found by time. Equal times come out in the order of their keys.
template <typename Key>
class DeadlineIndex {
 public:
  void Set(const Key& key, MonoTime time) {
    Clear(key);
    by_key_.emplace(key, time);
    by_time_.emplace(time, key);
  }

  void Clear(const Key& key) {
    const auto it = by_key_.find(key);
    if (it == by_key_.end())
      return;
    by_time_.erase({it->second, key});
    by_key_.erase(it);
  }

  bool Contains(const Key& key) const { return by_key_.count(key) > 0; }
  size_t size() const { return by_key_.size(); }

  std::optional<MonoTime> Next() const {
    if (by_time_.empty())
      return std::nullopt;
    return by_time_.begin()->first;
  }

  // Removes and returns the keys whose time is not after `now`.
  std::vector<Key> TakeDue(MonoTime now) {
    std::vector<Key> due;
    while (!by_time_.empty() && by_time_.begin()->first <= now) {
      due.push_back(by_time_.begin()->second);
      by_key_.erase(due.back());
      by_time_.erase(by_time_.begin());
    }
    return due;
  }

 private:
  std::map<Key, MonoTime> by_key_;
  std::set<std::pair<MonoTime, Key>> by_time_;
};

}  // namespace pike::coordinator
