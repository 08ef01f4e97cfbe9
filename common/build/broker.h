#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "common/base/clock.h"
#include "common/build/artifact_store.h"
#include "common/build/build_outcome.h"
#include "common/build/build_request.h"
#include "common/build/builder.h"

namespace pike::build {

struct BrokerOptions {
  std::string cache_dir;         // finished artifacts of this machine; made if missing, mode 0700
  std::string toolchain_digest;  // of this worker; part of every key
  uint64_t cache_bytes_max = uint64_t{4} << 30;  // least recently used files beyond it are removed
  size_t slots = 1;                              // builds at the same time; see DefaultBuildSlots
  size_t queued_max = 256;  // builds waiting for a slot; more are ResourceExhausted
  // Called when a build ends here, with its seconds and "ok", "compile_error", "timeout",
  // "out_of_memory", "refused" or "infra". May be called from any thread.
  std::function<void(absl::string_view outcome, double seconds)> on_built;
  // Called for each answered request, with "cache", "store", "joined" or "built".
  std::function<void(absl::string_view source)> on_answered;
};

// How a caller wants one request answered.
struct BuildCall {
  std::string arch;                                  // "cpu", or for example "9.0"
  MonoTime deadline;                                 // the caller stops waiting; DeadlineExceeded
  std::chrono::milliseconds build_timeout{240'000};  // longest run of the tools, from their start
  std::stop_token stop;                              // the caller stops waiting; Cancelled
  // Builds of another toolchain with the same runtime digest that may be used too (those of the
  // compile stage); empty for none.
  std::string also_toolchain_digest;
};

// Answers build requests: from a build in flight, the local cache, the artifact store, or a
// Builder, in that order. Identical requests in flight are one build; a build that nobody waits for
// any more is stopped. Only artifacts are kept; failures are not.
//
// What is inside an artifact depends on the toolchain and the request's bytes alone, because the
// sandbox that builds holds nothing else: an include path or flag that points elsewhere finds
// nothing there. So no artifact is private to a candidate.
//
// Threads: thread-safe; owns one thread per slot. Ownership: `store` and `builder` must outlive it.
class Broker {
 public:
  static absl::StatusOr<std::unique_ptr<Broker>> Create(BrokerOptions options, ArtifactStore* store,
                                                        Builder* builder);
  // Stops running builds and joins.
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Blocks until there is an outcome. A candidate's failure is a value; errors are infrastructure
  // (ResourceExhausted: too many builds wait; DeadlineExceeded and Cancelled: as asked in `call`).
  absl::StatusOr<BuildOutcome> Build(const BuildRequest& request, const BuildCall& call);

  // Loads an artifact that will be asked for into the local cache. Blocking; NotFound if the store
  // has no such artifact.
  absl::Status Prefetch(const std::string& key, const std::string& sha256);

 private:
  class Queue;
  Broker(BrokerOptions options, ArtifactStore* store, std::unique_ptr<Queue> queue);

  const BrokerOptions options_;
  ArtifactStore* const store_;
  const std::unique_ptr<Queue> queue_;
};

// Builds that fit this machine: one per core, and one per `bytes_per_build` of memory.
size_t DefaultBuildSlots(uint64_t bytes_per_build);

}  // namespace pike::build
