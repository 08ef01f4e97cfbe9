#include "gpu_worker/supervisor/bench.h"

#include <iterator>
#include <utility>

#include "common/sandbox/sandbox.h"
#include "gpu_worker/supervisor/json_frame.h"
#include "gpu_worker/supervisor/runner_link.h"

namespace pike::gpu {
namespace {

constexpr std::chrono::seconds kSendTimeout{20};
constexpr std::chrono::seconds kEndTimeout{2};

}  // namespace

Bench::Bench(Node* node, std::string task_version, sandbox::WarmSandbox warm)
    : node_(node),
      task_version_(std::move(task_version)),
      warm_(std::move(warm)),
      member_(node->gate(), warm_.sandbox.get()) {}

Bench::~Bench() {
  Kill();
  node_->Forget(*warm_.sandbox);
}

bool Bench::Kill() {
  const QuietGate::Teardown teardown(member_.gate(), member_.party());
  return !warm_.sandbox->Kill().is_stuck;
}

absl::Status Bench::HandIn(const TaskFile& task) const {
  return node_->HandIn(*warm_.sandbox, "task.py", task.source);
}

absl::Status Bench::Send(const nlohmann::json& request, const std::vector<int>& fds) {
  return SendFrame(&warm_.channel, request, fds, MonoNow() + kSendTimeout);
}

absl::StatusOr<std::optional<nlohmann::json>> Bench::Read(MonoTime deadline) {
  absl::StatusOr<sandbox::Frame> frame = warm_.channel.Receive(deadline);
  if (absl::IsDeadlineExceeded(frame.status()))
    return std::optional<nlohmann::json>();
  if (!frame.ok())
    return frame.status();
  absl::StatusOr<nlohmann::json> parsed = ParseFrame(frame->bytes);
  if (!parsed.ok())
    return parsed.status();
  return std::optional<nlohmann::json>(*std::move(parsed));
}

ProcessFacts Bench::End() {
  const QuietGate::Teardown teardown(member_.gate(), member_.party());
  return FactsOf(warm_.sandbox->WaitOrKill(MonoNow() + kEndTimeout));
}

std::unique_ptr<Bench> BenchShelf::Take(const std::string& task_version) {
  std::list<Idle> dead;  // destroyed without the lock: it kills
  MutexLock lock(&mutex_);
  for (auto it = idle_.begin(); it != idle_.end();) {
    const auto next = std::next(it);
    if (it->bench->HasEnded()) {
      dead.splice(dead.end(), idle_, it);
    } else if (it->bench->task_version() == task_version) {
      std::unique_ptr<Bench> bench = std::move(it->bench);
      idle_.erase(it);
      return bench;
    }
    it = next;
  }
  return nullptr;
}

void BenchShelf::Put(std::unique_ptr<Bench> bench, MonoTime now) {
  bench->Join(QuietGate::kNobody);
  std::list<Idle> evicted;
  MutexLock lock(&mutex_);
  idle_.push_back({std::move(bench), now});
  while (idle_.size() > idle_max_)
    evicted.splice(evicted.end(), idle_, idle_.begin());
}

void BenchShelf::CloseIdle(MonoTime now) {
  std::list<Idle> evicted;
  MutexLock lock(&mutex_);
  while (!idle_.empty() && idle_.front().since + idle_time_max_ <= now)
    evicted.splice(evicted.end(), idle_, idle_.begin());
}

}  // namespace pike::gpu
