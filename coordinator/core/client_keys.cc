#include "coordinator/core/client_keys.h"

#include <string>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {

const ClientKeyKept* ClientKeys::Find(const Principal& principal,
                                      const std::string& client_key) const {
  const auto it = by_key_.find({principal, client_key});
  return it == by_key_.end() ? nullptr : &it->second;
}

void ClientKeys::Add(const ClientKeyKept& kept) {
  if (kept.client_key.empty())
    return;
  PIKE_CHECK(by_key_.emplace(Key(kept.principal, kept.client_key), kept).second);
}

void ClientKeys::MarkEnded(const Principal& principal, const std::string& client_key) {
  if (client_key.empty())
    return;
  ended_.emplace_back(principal, client_key);
  while (ended_.size() > ended_max_) {
    by_key_.erase(ended_.front());
    ended_.pop_front();
  }
}

bool ClientKeys::MarkLive(const ClientKeyKept& kept) {
  if (kept.client_key.empty())
    return true;
  const Key key(kept.principal, kept.client_key);
  const auto [it, is_forgotten] = by_key_.emplace(key, kept);
  if (!is_forgotten && it->second.evaluation_id != kept.evaluation_id)
    return false;
  std::erase(ended_, key);
  return true;
}

std::vector<ClientKeyKept> ClientKeys::Ended() const {
  std::vector<ClientKeyKept> kept;
  for (const Key& key : ended_)
    kept.push_back(by_key_.at(key));
  return kept;
}

}  // namespace pike::coordinator
