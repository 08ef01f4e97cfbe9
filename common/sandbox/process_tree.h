#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace pike::sandbox {

// `root` and its living descendants, as far as /proc shows them now.
std::vector<pid_t> ProcessTree(pid_t root);

// Anonymous and shared memory that the processes hold, in RAM or swapped out. Pages that several
// share are counted for each, unless `is_exact` (slower: reads their page tables).
int64_t TreeMemoryBytes(const std::vector<pid_t>& pids, bool is_exact);

}  // namespace pike::sandbox
