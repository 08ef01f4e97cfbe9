#include "common/build/broker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/mutex.h"
#include "common/build/artifact_cache.h"
#include "tests/testing/catch.h"

namespace pike::build {
namespace {

BuildRequest Request(const std::string& source) {
  BuildRequest request;
  request.name = "ext";
  request.sources = {{"main.cpp", source}};
  return request;
}

BuildCall Call() {
  BuildCall call;
  call.arch = "cpu";
  call.deadline = MonoNow() + std::chrono::seconds(30);
  return call;
}

BuildProduct Product(const std::string& bytes) {
  return {std::make_shared<const Artifact>(Sha256Hex(bytes), bytes), nullptr, false};
}

// Answers with the first source's text, once it is let go; counts and can be stopped.
class ScriptedBuilder : public Builder {
 public:
  absl::StatusOr<BuildProduct> Build(const BuildJob& job, std::stop_token stop) override {
    const std::stop_callback wake(stop, [this] {
      MutexLock lock(&mutex_);
      changed_.NotifyAll();
    });
    MutexLock lock(&mutex_);
    ++started_;
    changed_.NotifyAll();
    while (is_held_ && !stop.stop_requested())
      changed_.Wait(&mutex_);
    if (stop.stop_requested())
      return absl::CancelledError("stopped");
    if (job.request.sources[0].contents == "broken") {
      auto failure = std::make_shared<BuildFailure>();
      failure->tool = "g++";
      return BuildProduct{nullptr, std::move(failure), false};
    }
    return Product(job.request.sources[0].contents);
  }

  void Hold() {
    MutexLock lock(&mutex_);
    is_held_ = true;
  }
  void LetGo() {
    MutexLock lock(&mutex_);
    is_held_ = false;
    changed_.NotifyAll();
  }
  void WaitForStarted(int count) {
    MutexLock lock(&mutex_);
    while (started_ < count)
      changed_.Wait(&mutex_);
  }
  int started() {
    MutexLock lock(&mutex_);
    return started_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_held_ ABSL_GUARDED_BY(mutex_) = false;
  int started_ ABSL_GUARDED_BY(mutex_) = 0;
};

struct Fixture {
  TempFolder folder = TempFolder::Create("broker").value();
  ScriptedBuilder builder;
  MemoryArtifactStore store;
  std::unique_ptr<Broker> broker = NewBroker(1, 4);

  std::unique_ptr<Broker> NewBroker(size_t slots, size_t queued_max) {
    BrokerOptions options;
    options.cache_dir = folder.path() + "/cache";
    options.toolchain_digest = "toolchain";
    options.slots = slots;
    options.queued_max = queued_max;
    return Broker::Create(options, &store, &builder).value();
  }
};

TEST_CASE("Broker: a finished build is reused, from the cache and from the store") {
  Fixture fixture;
  const absl::StatusOr<BuildOutcome> first = fixture.broker->Build(Request("a"), Call());
  REQUIRE(first.ok());
  REQUIRE(first->artifact != nullptr);
  CHECK(first->artifact->bytes() == "a");
  CHECK_FALSE(first->is_reused);
  const absl::StatusOr<BuildOutcome> second = fixture.broker->Build(Request("a"), Call());
  CHECK(second->is_reused);
  CHECK(second->key == first->key);
  CHECK(fixture.store.size() == 1);

  fixture.broker.reset();
  std::filesystem::remove_all(fixture.folder.path() + "/cache");
  fixture.broker = fixture.NewBroker(1, 4);
  const absl::StatusOr<BuildOutcome> third = fixture.broker->Build(Request("a"), Call());
  CHECK(third->is_reused);
  CHECK(third->artifact->bytes() == "a");
  CHECK(fixture.builder.started() == 1);
}

TEST_CASE("Broker: identical builds in flight are one build") {
  Fixture fixture;
  fixture.builder.Hold();
  std::vector<absl::StatusOr<BuildOutcome>> outcomes(4, absl::UnknownError(""));
  {
    std::vector<std::jthread> threads;
    for (absl::StatusOr<BuildOutcome>& outcome : outcomes) {
      threads.emplace_back([&] { outcome = fixture.broker->Build(Request("same"), Call()); });
    }
    fixture.builder.WaitForStarted(1);
    fixture.builder.LetGo();
  }
  int built = 0;
  for (const absl::StatusOr<BuildOutcome>& outcome : outcomes) {
    REQUIRE(outcome.ok());
    CHECK(outcome->artifact->bytes() == "same");
    built += outcome->is_reused ? 0 : 1;
  }
  CHECK(fixture.builder.started() == 1);
  CHECK(built == 1);
}

TEST_CASE("Broker: nobody joins a build that has another deadline than theirs") {
  Fixture fixture;
  fixture.broker = fixture.NewBroker(2, 4);
  fixture.builder.Hold();
  {
    std::vector<std::jthread> threads;
    for (const int ms : {100, 60'000}) {
      BuildCall call = Call();
      call.build_timeout = std::chrono::milliseconds(ms);
      threads.emplace_back(
          [&fixture, call] { CHECK(fixture.broker->Build(Request("same"), call).ok()); });
    }
    fixture.builder.WaitForStarted(2);
    fixture.builder.LetGo();
  }
  CHECK(fixture.builder.started() == 2);
}

TEST_CASE("Broker: a failure is a value and is not kept") {
  Fixture fixture;
  const absl::StatusOr<BuildOutcome> outcome = fixture.broker->Build(Request("broken"), Call());
  REQUIRE(outcome.ok());
  CHECK(outcome->artifact == nullptr);
  REQUIRE(outcome->failure != nullptr);
  CHECK(outcome->failure->tool == "g++");
  CHECK(fixture.store.size() == 0);
  REQUIRE(fixture.broker->Build(Request("broken"), Call()).ok());
  CHECK(fixture.builder.started() == 2);
}

TEST_CASE("Broker: a request out of bounds is refused as the candidate's failure") {
  Fixture fixture;
  BuildRequest request = Request("a");
  request.name = "not a name";
  const absl::StatusOr<BuildOutcome> outcome = fixture.broker->Build(request, Call());
  REQUIRE(outcome.ok());
  CHECK(outcome->failure->kind == BuildFailureKind::kRefused);
  CHECK(fixture.builder.started() == 0);
}

TEST_CASE("Broker: a build that nobody waits for is stopped and its slot is free") {
  Fixture fixture;
  fixture.builder.Hold();
  BuildCall call = Call();
  call.deadline = MonoNow() + std::chrono::milliseconds(1);
  CHECK(absl::IsDeadlineExceeded(fixture.broker->Build(Request("slow"), call).status()));

  std::stop_source stop;
  call = Call();
  call.stop = stop.get_token();
  {
    std::jthread caller([&] {
      CHECK(absl::IsCancelled(fixture.broker->Build(Request("slow too"), call).status()));
    });
    stop.request_stop();
  }
  fixture.builder.LetGo();
  CHECK(fixture.broker->Build(Request("next"), Call()).ok());
}

TEST_CASE("Broker: of two who wait, one may leave without ending the build") {
  Fixture fixture;
  fixture.builder.Hold();
  std::stop_source stop;
  BuildCall call = Call();
  call.stop = stop.get_token();
  std::jthread leaver([&] { fixture.broker->Build(Request("x"), call).IgnoreError(); });
  fixture.builder.WaitForStarted(1);
  absl::StatusOr<BuildOutcome> outcome = absl::UnknownError("");
  {
    std::jthread stayer([&] { outcome = fixture.broker->Build(Request("x"), Call()); });
    stop.request_stop();
    leaver.join();
    fixture.builder.LetGo();
  }
  REQUIRE(outcome.ok());
  CHECK(outcome->artifact->bytes() == "x");
}

TEST_CASE("Broker: more waiting builds than allowed are refused, not queued") {
  Fixture fixture;
  fixture.broker = fixture.NewBroker(1, 1);
  fixture.builder.Hold();
  std::jthread running([&] { fixture.broker->Build(Request("1"), Call()).IgnoreError(); });
  fixture.builder.WaitForStarted(1);
  BuildCall brief = Call();
  std::stop_source stop;
  brief.stop = stop.get_token();
  absl::Status second;
  absl::Status third;
  std::jthread one([&] {
    second = fixture.broker->Build(Request("2"), brief).status();
    stop.request_stop();
  });
  std::jthread two([&] {
    third = fixture.broker->Build(Request("3"), brief).status();
    stop.request_stop();
  });
  one.join();
  two.join();
  CHECK((absl::IsResourceExhausted(second) || absl::IsResourceExhausted(third)));
  fixture.builder.LetGo();
}

TEST_CASE("Broker: a build of another toolchain is used only where it may be") {
  Fixture fixture;
  const std::string key = BuildKey(Request("a"), "other", "cpu");
  REQUIRE(fixture.store.Publish(key, "theirs", "other").ok());
  BuildCall call = Call();
  call.also_toolchain_digest = "other";
  const absl::StatusOr<BuildOutcome> outcome = fixture.broker->Build(Request("a"), call);
  REQUIRE(outcome.ok());
  CHECK(outcome->artifact->bytes() == "theirs");
  CHECK(outcome->key == key);
  CHECK(fixture.broker->Build(Request("a"), Call())->artifact->bytes() == "a");
}

TEST_CASE("ArtifactCache: the least recently used go first, damaged ones never come back") {
  const TempFolder folder = TempFolder::Create("cache").value();
  const std::string a = Sha256Hex("key a");
  const std::string b = Sha256Hex("key b");
  const std::string c = Sha256Hex("key c");
  const std::string bytes(1000, 'x');
  const Artifact artifact(Sha256Hex(bytes), bytes);
  const std::unique_ptr<ArtifactCache> cache = ArtifactCache::Open(folder.path(), 2200).value();
  cache->Put(a, artifact);
  cache->Put(b, artifact);
  CHECK(cache->Get(a) != nullptr);
  cache->Put(c, artifact);
  CHECK(cache->Get(b) == nullptr);
  CHECK(cache->Get(a) != nullptr);
  CHECK(cache->bytes() <= 2200);

  const std::unique_ptr<ArtifactCache> again = ArtifactCache::Open(folder.path(), 2200).value();
  REQUIRE(WriteFileAtomic(folder.path() + "/" + a, "damaged").ok());
  CHECK(again->Get(a) == nullptr);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/" + a));
  CHECK(again->Get(c) != nullptr);
  CHECK(again->Get("../etc/passwd") == nullptr);
}

TEST_CASE("Artifact: what a sandbox gets can be neither changed nor cut") {
  const Artifact artifact(Sha256Hex("bytes"), "bytes");
  const absl::StatusOr<UniqueFd> fd = artifact.OpenSealed();
  REQUIRE(fd.ok());
  char buffer[8] = {};
  CHECK(::read(fd->get(), buffer, sizeof buffer) == 5);
  CHECK(::pwrite(fd->get(), "x", 1, 0) < 0);
  CHECK(::ftruncate(fd->get(), 1) < 0);
}

}  // namespace
}  // namespace pike::build
