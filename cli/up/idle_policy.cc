#include "cli/up/idle_policy.h"

namespace pike::cli {

bool IdlePolicy::OnStatus(uint32_t active, uint64_t ended, MonoTime now) {
  if (!first_status_at_.has_value()) {
    first_status_at_ = now;
    ended_at_first_ = ended;
  }
  if (active > 0 || ended > ended_at_first_)
    has_worked_ = true;
  if (active > 0) {
    idle_since_.reset();
    return false;
  }
  if (!idle_since_.has_value())
    idle_since_ = now;
  if (has_worked_)
    return now - *idle_since_ >= limits_.settle;
  return now - *first_status_at_ >= limits_.grace;
}

}  // namespace pike::cli
