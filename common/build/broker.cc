#include "common/build/broker.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/build/artifact_cache.h"

namespace pike::build {
namespace {

// One build that somebody waits for. All fields but `stop` belong to the queue's mutex, except that
// the slot that runs it reads the constant ones.
struct InFlight {
  std::string key;
  std::string arch;
  BuildRequest request;
  std::chrono::milliseconds build_timeout{};
  std::stop_source stop;
  size_t waiters = 0;
  bool is_done = false;
  absl::StatusOr<BuildProduct> product = absl::UnknownError("not built");
  double build_ms = 0;
};

absl::string_view OutcomeName(const absl::StatusOr<BuildProduct>& product) {
  if (!product.ok())
    return "infra";
  if (product->failure == nullptr)
    return "ok";
  switch (product->failure->kind) {
    case BuildFailureKind::kCompileError:
      return "compile_error";
    case BuildFailureKind::kTimeout:
      return "timeout";
    case BuildFailureKind::kOutOfMemory:
      return "out_of_memory";
    case BuildFailureKind::kRefused:
      return "refused";
  }
  return "infra";
}

BuildOutcome Found(std::string key, std::shared_ptr<const Artifact> artifact) {
  BuildOutcome outcome;
  outcome.key = std::move(key);
  outcome.artifact = std::move(artifact);
  outcome.is_reused = true;
  return outcome;
}

}  // namespace

// Builds in flight, the threads that run them, and the local cache they fill.
class Broker::Queue {
 public:
  Queue(const BrokerOptions& options, ArtifactStore* store, Builder* builder,
        std::unique_ptr<ArtifactCache> cache)
      : options_(options), store_(store), builder_(builder), cache_(std::move(cache)) {
    for (size_t i = 0; i < std::max<size_t>(1, options.slots); ++i)
      threads_.emplace_back([this] { RunSlot(); });
  }

  ~Queue() {
    std::vector<std::shared_ptr<InFlight>> builds;
    {
      MutexLock lock(&mutex_);
      is_stopping_ = true;
      for (const auto& [key, build] : in_flight_)
        builds.push_back(build);
      changed_.NotifyAll();
    }
    for (const std::shared_ptr<InFlight>& build : builds)
      build->stop.request_stop();
    threads_.clear();
  }

  ArtifactCache* cache() { return cache_.get(); }

  // Joins the build of `key` or adds it, and waits for it.
  absl::StatusOr<BuildOutcome> BuildOrJoin(const std::string& key, const BuildRequest& request,
                                           const BuildCall& call) {
    bool is_joined = false;
    std::shared_ptr<InFlight> build;
    {
      MutexLock lock(&mutex_);
      // Who has another deadline must not fail by this one.
      const FlightKey flight{key, call.build_timeout};
      const auto it = in_flight_.find(flight);
      is_joined = it != in_flight_.end();
      if (is_joined) {
        build = it->second;
      } else {
        if (waiting_.size() >= options_.queued_max || is_stopping_)
          return absl::ResourceExhaustedError("too many builds wait for a slot");
        build = std::make_shared<InFlight>();
        build->key = key;
        build->arch = call.arch;
        build->request = request;
        build->build_timeout = call.build_timeout;
        in_flight_[flight] = build;
        waiting_.push_back(build);
      }
      ++build->waiters;
      changed_.NotifyAll();
    }
    return Wait(build, call, is_joined);
  }

 private:
  using FlightKey = std::pair<std::string, std::chrono::milliseconds>;

  absl::StatusOr<BuildOutcome> Wait(const std::shared_ptr<InFlight>& build, const BuildCall& call,
                                    bool is_joined) {
    const std::stop_callback wake(call.stop, [this] {
      MutexLock lock(&mutex_);
      changed_.NotifyAll();
    });
    bool is_in_time = true;
    {
      MutexLock lock(&mutex_);
      while (!build->is_done && is_in_time && !call.stop.stop_requested() && !is_stopping_)
        is_in_time = changed_.WaitUntil(&mutex_, call.deadline);
      --build->waiters;
      if (build->is_done)
        return Outcome(*build, is_joined);
      if (build->waiters > 0)
        return NotDone(is_in_time);
      Erase(build);
      const auto it = std::find(waiting_.begin(), waiting_.end(), build);
      if (it != waiting_.end())
        waiting_.erase(it);
    }
    build->stop.request_stop();  // nobody waits for it any more
    return NotDone(is_in_time);
  }

  static absl::Status NotDone(bool is_in_time) {
    if (!is_in_time)
      return absl::DeadlineExceededError("the build did not end in time");
    return absl::CancelledError("the build is not wanted any more");
  }

  static absl::StatusOr<BuildOutcome> Outcome(const InFlight& build, bool is_joined) {
    RETURN_IF_ERROR(build.product.status());
    BuildOutcome outcome;
    outcome.key = build.key;
    outcome.artifact = build.product->artifact;
    outcome.failure = build.product->failure;
    outcome.build_ms = is_joined ? 0 : build.build_ms;
    outcome.is_reused = is_joined;
    return outcome;
  }

  void Erase(const std::shared_ptr<InFlight>& build) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = in_flight_.find(FlightKey{build->key, build->build_timeout});
    if (it != in_flight_.end() && it->second == build)
      in_flight_.erase(it);
  }

  std::shared_ptr<InFlight> Next() {
    MutexLock lock(&mutex_);
    while (waiting_.empty() && !is_stopping_)
      changed_.Wait(&mutex_);
    if (is_stopping_)
      return nullptr;
    std::shared_ptr<InFlight> build = waiting_.front();
    waiting_.pop_front();
    return build;
  }

  void RunSlot() {
    while (std::shared_ptr<InFlight> build = Next()) {
      const MonoTime start = MonoNow();
      absl::StatusOr<BuildProduct> product = BuildOne(*build, start);
      const double build_ms = ToMs(MonoNow() - start);
      if (options_.on_built)
        options_.on_built(OutcomeName(product), build_ms / 1000);
      MutexLock lock(&mutex_);
      build->product = std::move(product);
      build->build_ms = build_ms;
      build->is_done = true;
      Erase(build);
      changed_.NotifyAll();
    }
  }

  absl::StatusOr<BuildProduct> BuildOne(const InFlight& build, MonoTime start) {
    // Another caller may have finished the same build between this one's look-up and its entry.
    std::shared_ptr<const Artifact> cached = cache_->Get(build.key);
    if (cached != nullptr)
      return BuildProduct{std::move(cached), nullptr, true};
    BuildJob job;
    job.request = build.request;
    job.key = build.key;
    job.arch = build.arch;
    job.deadline = start + build.build_timeout;
    ASSIGN_OR_RETURN(BuildProduct product, builder_->Build(job, build.stop.get_token()));
    if (product.artifact == nullptr)
      return product;
    cache_->Put(build.key, *product.artifact);
    if (!product.is_published) {
      const absl::Status published =
          store_->Publish(build.key, product.artifact->bytes(), options_.toolchain_digest);
      if (!published.ok())
        LogWarning(absl::StrCat("artifact not published: ", published.ToString()));
    }
    return product;
  }

  const BrokerOptions options_;
  ArtifactStore* const store_;
  Builder* const builder_;
  const std::unique_ptr<ArtifactCache> cache_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<FlightKey, std::shared_ptr<InFlight>> in_flight_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<InFlight>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

Broker::Broker(BrokerOptions options, ArtifactStore* store, std::unique_ptr<Queue> queue)
    : options_(std::move(options)), store_(store), queue_(std::move(queue)) {}

Broker::~Broker() = default;

absl::StatusOr<std::unique_ptr<Broker>> Broker::Create(BrokerOptions options, ArtifactStore* store,
                                                       Builder* builder) {
  PIKE_CHECK(store != nullptr && builder != nullptr);
  ASSIGN_OR_RETURN(std::unique_ptr<ArtifactCache> cache,
                   ArtifactCache::Open(options.cache_dir, options.cache_bytes_max));
  auto queue = std::make_unique<Queue>(options, store, builder, std::move(cache));
  return std::unique_ptr<Broker>(new Broker(std::move(options), store, std::move(queue)));
}

absl::StatusOr<BuildOutcome> Broker::Build(const BuildRequest& request, const BuildCall& call) {
  const absl::Status checked = CheckBuildRequest(request);
  if (!checked.ok()) {
    auto failure = std::make_shared<BuildFailure>();
    failure->kind = BuildFailureKind::kRefused;
    failure->tool = "broker";
    failure->first_error = std::string(checked.message());
    BuildOutcome outcome;
    outcome.failure = std::move(failure);
    return outcome;
  }
  std::vector<std::string> keys = {BuildKey(request, options_.toolchain_digest, call.arch)};
  if (!call.also_toolchain_digest.empty() &&
      call.also_toolchain_digest != options_.toolchain_digest) {
    keys.push_back(BuildKey(request, call.also_toolchain_digest, call.arch));
  }
  const auto answered = [this](absl::string_view source) {
    if (options_.on_answered)
      options_.on_answered(source);
  };
  for (const std::string& key : keys) {
    std::shared_ptr<const Artifact> artifact = queue_->cache()->Get(key);
    if (artifact != nullptr) {
      answered("cache");
      return Found(key, std::move(artifact));
    }
  }
  for (const std::string& key : keys) {
    absl::StatusOr<std::optional<std::string>> sha256 = store_->Lookup(key);
    if (!sha256.ok() || !sha256->has_value())
      continue;
    const absl::Status fetched = Prefetch(key, **sha256);
    std::shared_ptr<const Artifact> artifact = fetched.ok() ? queue_->cache()->Get(key) : nullptr;
    if (artifact != nullptr) {
      answered("store");
      return Found(key, std::move(artifact));
    }
    LogWarning(absl::StrCat("artifact of ", key, ": ", fetched.ToString()));
  }
  absl::StatusOr<BuildOutcome> outcome = queue_->BuildOrJoin(keys[0], request, call);
  if (outcome.ok())
    answered(outcome->is_reused ? "joined" : "built");
  return outcome;
}

absl::Status Broker::Prefetch(const std::string& key, const std::string& sha256) {
  const std::shared_ptr<const Artifact> cached = queue_->cache()->Get(key);
  if (cached != nullptr && cached->sha256() == sha256)
    return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string bytes, store_->Fetch(sha256));
  if (Sha256Hex(bytes) != sha256)
    return absl::DataLossError(absl::StrCat("artifact ", sha256, " has other bytes"));
  queue_->cache()->Put(key, Artifact(sha256, std::move(bytes)));
  return absl::OkStatus();
}

size_t DefaultBuildSlots(uint64_t bytes_per_build) {
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  const uint64_t memory = static_cast<uint64_t>(std::max(1L, ::sysconf(_SC_PHYS_PAGES))) *
                          static_cast<uint64_t>(std::max(1L, ::sysconf(_SC_PAGESIZE)));
  const uint64_t by_memory = memory / std::max<uint64_t>(1, bytes_per_build);
  return std::max<size_t>(
      1, std::min<uint64_t>(static_cast<uint64_t>(std::max(1L, cores)), by_memory));
}

}  // namespace pike::build
