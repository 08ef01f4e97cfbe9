#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include <absl/types/span.h>

namespace pike::sandbox {

// `root` and its living descendants, as far as /proc shows them now.
std::vector<pid_t> ProcessTree(pid_t root);

// Sends SIGSTOP to the living descendants of `root`, again and again until a look finds no new ones
// (bounded). True if all of them were seen stopped.
bool StopDescendants(pid_t root);
// Sends SIGCONT to the living descendants of `root`.
void ContinueDescendants(pid_t root);

// Lets every thread of `root` and its descendants run on `cores` only. Threads that end meanwhile
// do not matter; those that are made inherit it, and it looks again until it finds no other.
void KeepTreeOn(pid_t root, absl::Span<const int> cores);

// The same for the first thread of each only, and one core. Threads that these make from now on
// inherit it.
void KeepFirstThreadsOn(pid_t root, int core);

// Anonymous and shared memory that the processes hold, in RAM or swapped out. Pages that several
// share are counted for each, unless `is_exact` (slower: reads their page tables).
int64_t TreeMemoryBytes(const std::vector<pid_t>& pids, bool is_exact);

}  // namespace pike::sandbox
