#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/record.h"
#include "coordinator/core/types.h"

namespace pike::coordinator {

// Which evaluation a client key names. Keys of live evaluations are always kept; those of ended
// ones up to a bound, oldest end first out.
class ClientKeys {
 public:
  explicit ClientKeys(size_t ended_max) : ended_max_(ended_max) {}

  // Null if the key is not known. Valid until the next change.
  const ClientKeyKept* Find(const Principal& principal, const std::string& client_key) const;

  // Empty keys are ignored.
  void Add(const ClientKeyKept& kept);
  void MarkEnded(const Principal& principal, const std::string& client_key);
  // The evaluation that the key named has not ended after all. False: the key names another one.
  bool MarkLive(const ClientKeyKept& kept);

  // The keys of ended evaluations, oldest end first.
  std::vector<ClientKeyKept> Ended() const;

 private:
  using Key = std::pair<Principal, std::string>;
  std::map<Key, ClientKeyKept> by_key_;
  std::deque<Key> ended_;
  size_t ended_max_;
};

}  // namespace pike::coordinator
