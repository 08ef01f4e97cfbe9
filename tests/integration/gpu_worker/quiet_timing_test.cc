// Many candidates at once on simulated devices: real sandboxes that compute on the CPU, so that
// what must hold between neighbours on a GPU can be shown without one.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/unique_fd.h"
#include "common/build/local_builder.h"
#include "common/build/toolchain.h"
#include "common/device/device_choice.h"
#include "gpu_worker/server/device_units.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

constexpr int kCandidates = 8;
constexpr int kKinds = 5;  // of candidates

constexpr char kTask[] = R"(
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
)";

// While it loads it keeps its device busy, as another's context and weights would, and says when:
// one line per stretch, from and to in nanoseconds of the monotonic clock. A gap in a stretch is
// time in which it did not run.
constexpr char kBusyWhileLoading[] = R"(
import time
import torch

def be_busy(seconds):
    end = time.monotonic_ns() + int(seconds * 1e9)
    start = last = time.monotonic_ns()
    while last < end:
        now = time.monotonic_ns()
        if now - last > 2_000_000:
            print("busy", start, last)
            end += now - last
            start = now
        last = now
    print("busy", start, last, flush=True)

be_busy(0.5)
)";

std::string Candidate(int number) {
  const char* const forwards[] = {"return torch.relu(x)", "return torch.clamp(x, min=0)",
                                  "return torch.relu(x) + 1", "raise ValueError('no')",
                                  "return x * (x > 0)"};
  return absl::StrCat(kBusyWhileLoading, "\nclass ModelNew(torch.nn.Module):\n",
                      "    def forward(self, x):\n        ", forwards[number % kKinds], "\n");
}

std::string Env(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(value != nullptr);
  return value;
}

// Few, or what PIKE_QUIET_CANDIDATES says (20, say): each needs three processes with torch.
int CandidateCount() {
  const char* const text = std::getenv("PIKE_QUIET_CANDIDATES");  // NOLINT(concurrency-mt-unsafe)
  int count = kCandidates;
  if (text != nullptr)
    REQUIRE(absl::SimpleAtoi(text, &count));
  return count;
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  INFO(value.status());
  REQUIRE(value.ok());
  return *std::move(value);
}

// The devices of a worker, without gRPC.
class DevicesFixture {
 public:
  explicit DevicesFixture(const char* devices = "simulated:2") {
    DeviceUnits::CommonOptions common;
    NodeOptions& node = common.node;
    node.share_dir = Env("PIKE_SOURCE_DIR") + "/common";
    node.toolchain =
        Must(build::ProbeToolchain({Env("PIKE_PYTHON"), node.share_dir, folder.path()}));
    node.native_dir = Env("PIKE_BIN_DIR") + "/../native/current";
    node.runtime_dir = folder.path();
    node.runner_memory_bytes_max = int64_t{1} << 30;
    node.judge_memory_bytes_max = int64_t{2} << 30;
    node.threads = 1;
    node.runners_ready = 2;
    // Sixty imports of torch share the cores.
    node.ready_timeout = std::chrono::minutes(12);
    node.settle_timeout = std::chrono::seconds(1);
    common.on_frozen = [this](const std::string& device, double seconds) {
      MutexLock lock(&mutex);
      frozen_s[device] += seconds;
    };
    build::LocalBuilderOptions builder_options;
    builder_options.toolchain = node.toolchain;
    builder = std::make_unique<build::LocalBuilder>(builder_options, host.get());
    build::BrokerOptions broker_options;
    broker_options.cache_dir = folder.path() + "/artifacts";
    broker_options.toolchain_digest = node.toolchain.toolchain.Digest();
    broker = Must(build::Broker::Create(broker_options, &store, builder.get()));
    units = Must(DeviceUnits::Create(Must(device::ChooseDevices(devices, {})), common, host.get()));
    JitCachesOptions caches;
    caches.cache_dir = folder.path() + "/caches";
    jit_caches = Must(JitCaches::Create(caches));
    SupervisorOptions supervisor;
    supervisor.jit_caches = jit_caches.get();
    REQUIRE(units->Supervise(supervisor, broker.get()).ok());
  }

  v1::LeaseResult Evaluate(
      const std::string& candidate,
      const std::function<void(v1::Stage)>& on_stage = [](v1::Stage) {}) const {
    EvaluationRequest request;
    request.task = {Sha256Hex(kTask), kTask, 7, "Model"};
    request.candidate_source = candidate;
    request.arch = "cpu";
    v1::Policy& policy = request.policy;
    policy.set_atol(1e-2);
    policy.set_rtol(1e-2);
    policy.set_correctness_trials(5);
    policy.set_warmup_calls(1);
    policy.set_timed_calls_max(30);
    policy.set_timed_ms_max(300);
    policy.set_build_timeout_ms(60'000);
    policy.set_load_timeout_ms(120'000);
    policy.set_first_call_timeout_ms(60'000);
    policy.set_call_timeout_ms(60'000);
    const DeviceUnits::Seat seat = units->Take({});
    return seat.supervisor()->Evaluate(request, on_stage, {});
  }

  // What its sandboxes see as /pike/device.
  std::string SimulatedFolder() const {
    return absl::StrCat(folder.path(), "/gpu-worker/", ::getpid(), "-simulated-0/device");
  }

  TempFolder folder = Must(TempFolder::Create("pike-quiet"));
  std::unique_ptr<sandbox::SandboxHost> host = Must(sandbox::SandboxHost::Create({}));
  build::MemoryArtifactStore store;
  std::unique_ptr<build::LocalBuilder> builder;
  std::unique_ptr<build::Broker> broker;
  std::unique_ptr<JitCaches> jit_caches;
  std::unique_ptr<DeviceUnits> units;
  Mutex mutex;
  std::map<std::string, double> frozen_s ABSL_GUARDED_BY(mutex);
};

struct Interval {
  int candidate;
  std::string device;
  std::string operation;
  uint64_t start;
  uint64_t end;
};

// What the service recorded, and what the candidates themselves saw of their loads.
std::vector<Interval> IntervalsOf(int number, const v1::LeaseResult& result) {
  std::vector<Interval> intervals;
  std::string device;
  for (const v1::DeviceInterval& interval : result.times().intervals()) {
    device = interval.device_id();
    CHECK(interval.start_ns() <= interval.end_ns());
    intervals.push_back(
        {number, device, interval.operation(), interval.start_ns(), interval.end_ns()});
  }
  const v1::OutputTail& out = result.verdict().evidence().stdout_tail();
  for (const absl::string_view line : absl::StrSplit(absl::StrCat(out.head(), out.tail()), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    uint64_t start = 0;
    uint64_t end = 0;
    if (words.size() == 3 && words[0] == "busy" && absl::SimpleAtoi(words[1], &start) &&
        absl::SimpleAtoi(words[2], &end))
      intervals.push_back({number, device, "busy", start, end});
  }
  return intervals;
}

// How often a timing had company on its device.
int CountDisturbedTimings(const std::vector<Interval>& all) {
  int count = 0;
  for (const Interval& timing : all) {
    if (timing.operation != "measure")
      continue;
    for (const Interval& other : all) {
      const bool is_beside = other.candidate != timing.candidate && other.device == timing.device &&
                             other.start < timing.end && timing.start < other.end;
      if (!is_beside)
        continue;
      ++count;
      UNSCOPED_INFO("candidate " << timing.candidate << " is timed on " << timing.device
                                 << " beside " << other.operation << " of " << other.candidate);
    }
  }
  return count;
}

TEST_CASE("Quiet timing: of many candidates at once none is timed in company") {
  DevicesFixture fixture;
  const int count = CandidateCount();
  std::vector<v1::LeaseResult> results(static_cast<size_t>(count));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&fixture, &results, i] {
        results[static_cast<size_t>(i)] = fixture.Evaluate(Candidate(i));
      });
  }
  std::vector<Interval> all;
  std::map<std::string, int> timings;
  std::map<std::string, int> busy;
  for (int i = 0; i < count; ++i) {
    const v1::LeaseResult& result = results[static_cast<size_t>(i)];
    INFO(i << ": " << result.ShortDebugString());
    CHECK(result.has_verdict());
    for (const Interval& interval : IntervalsOf(i, result)) {
      timings[interval.device] += interval.operation == "measure" ? 1 : 0;
      busy[interval.device] += interval.operation == "busy" ? 1 : 0;
      all.push_back(interval);
    }
  }
  CHECK(CountDisturbedTimings(all) == 0);
  // Both devices were used, and there was something to disturb.
  REQUIRE(timings.size() == 2);
  for (const auto& [device, timed] : timings) {
    CHECK(timed > 0);
    CHECK(busy[device] >= count / 4);
  }
  {
    MutexLock lock(&fixture.mutex);
    CHECK(fixture.frozen_s.size() == 2);
  }
  // Each verdict is the one that the candidate gets alone.
  for (int i = 0; i < std::min(kKinds, count); ++i) {
    const v1::LeaseResult alone = fixture.Evaluate(Candidate(i));
    REQUIRE(alone.has_verdict());
    for (int k = i; k < count; k += kKinds)
      CHECK(results[static_cast<size_t>(k)].verdict().kind() == alone.verdict().kind());
  }
}

TEST_CASE("JIT pass: what a first runner compiled is there for the real one") {
  DevicesFixture fixture;
  const std::string candidate = R"(
import os
import torch

class ModelNew(torch.nn.Module):  # a word that asks for the pass: torch.compile
    def forward(self, x):
        cache = os.environ["TRITON_CACHE_DIR"]
        if os.path.exists(cache + "/kernel"):
            print("found what was compiled", flush=True)
        os.makedirs(cache, exist_ok=True)
        open(cache + "/kernel", "w").close()
        return torch.relu(x)
)";
  // What is kept serves the next evaluation of the same candidate, which has no pass of its own, on
  // whichever device.
  for (const int passes : {1, 0}) {
    const v1::LeaseResult result = fixture.Evaluate(candidate);
    INFO(result.ShortDebugString());
    REQUIRE(result.verdict().kind() == v1::VERDICT_KIND_VALID);
    // At the real runner's first call, too; the second would find its own.
    const std::string& out = result.verdict().evidence().stdout_tail().head();
    const auto& intervals = result.times().intervals();
    CHECK(std::count_if(intervals.begin(), intervals.end(), [](const v1::DeviceInterval& interval) {
            return interval.operation() == "jit";
          }) == passes);
    const auto calls = static_cast<int>(result.verdict().correctness().calls_compared());
    const std::vector<absl::string_view> lines = absl::StrSplit(out, '\n', absl::SkipEmpty());
    CHECK(static_cast<int>(lines.size()) >= calls);
  }
}

TEST_CASE("Rest: who leaves work on the device is blamed, a neighbour is not") {
  DevicesFixture fixture("simulated:1");
  // It waits in its constructor, with work queued, until its neighbour is to be timed.
  const std::string leaves_work = R"(
import fcntl, os, time
import torch

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.work = os.open(os.environ["PIKE_SIMULATED_WORK"], os.O_RDONLY)
        fcntl.flock(self.work, fcntl.LOCK_SH)
        print("queued", flush=True)
        while not os.path.exists("/pike/device/neighbour_is_there"):
            time.sleep(0.05)
    def forward(self, x):
        return torch.relu(x)
)";
  v1::LeaseResult guilty;
  v1::LeaseResult innocent;
  {
    const std::jthread thread([&] { guilty = fixture.Evaluate(leaves_work); });
    bool is_first = true;
    innocent = fixture.Evaluate(Candidate(0), [&](v1::Stage stage) {
      if (stage != v1::STAGE_MEASURE || !std::exchange(is_first, false))
        return;
      const UniqueFd work(
          ::open((fixture.SimulatedFolder() + "/work").c_str(), O_RDONLY | O_CLOEXEC));
      while (::flock(work.get(), LOCK_EX | LOCK_NB) == 0) {  // until the other has queued its work
        REQUIRE(::flock(work.get(), LOCK_UN) == 0);
        std::this_thread::yield();
      }
      CHECK(WriteFileAtomic(fixture.SimulatedFolder() + "/neighbour_is_there", "", 0644).ok());
    });
  }
  INFO(guilty.ShortDebugString());
  INFO(innocent.ShortDebugString());
  CHECK(guilty.verdict().kind() == v1::VERDICT_KIND_TIMEOUT);
  CHECK(guilty.verdict().blame() == v1::BLAME_CANDIDATE);
  CHECK(guilty.verdict().reason().find("left on the device") != std::string::npos);
  CHECK(innocent.verdict().kind() == v1::VERDICT_KIND_VALID);
  REQUIRE(innocent.verdict().evidence().earlier_attempts_size() == 1);
  CHECK(innocent.verdict().evidence().earlier_attempts(0).find("alone") != std::string::npos);
}

TEST_CASE("Memory: what runs out beside others is tried again alone") {
  DevicesFixture fixture;
  // Its judge stays on the device, idle.
  CHECK(fixture.Evaluate(Candidate(0)).has_verdict());
  const std::string greedy =
      "import torch\nclass ModelNew(torch.nn.Module):\n"
      "    def forward(self, x):\n        raise MemoryError('no room')\n";
  const v1::LeaseResult result = fixture.Evaluate(greedy);
  INFO(result.ShortDebugString());
  CHECK(result.verdict().kind() == v1::VERDICT_KIND_OUT_OF_MEMORY);
  REQUIRE(result.verdict().evidence().earlier_attempts_size() == 1);
  CHECK(result.verdict().evidence().earlier_attempts(0).find("alone") != std::string::npos);
}

}  // namespace
}  // namespace pike::gpu
