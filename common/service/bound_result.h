#pragma once

#include <cstddef>

#include "pike/v1/worker.pb.h"

namespace pike::service {

// Far below the limit of a message, since the coordinator adds to it.
inline constexpr size_t kResultBytesMax = 4 << 20;

// Cuts a result down to kResultBytesMax: what tools and candidates printed goes first, what is
// still larger becomes a failure that is not repeated. A result that no message can carry would be
// sent, and break the stream, again and again.
void BoundResult(v1::LeaseResult* result);

}  // namespace pike::service
