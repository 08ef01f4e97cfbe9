// The throw-away pass: a first runner of the candidate fills its compile caches beside others'
// operations, so that the real one does not compile while it holds the lock.

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "gpu_worker/supervisor/evaluation.h"
#include "gpu_worker/supervisor/folder_copy.h"
#include "gpu_worker/supervisor/jit_source.h"
#include "gpu_worker/supervisor/json_frame.h"

namespace pike::gpu {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGrace{30'000};
constexpr milliseconds kEndTimeout{2'000};

// The private work folder of a living sandbox. As long as it is open its files stay, whatever
// becomes of the sandbox.
absl::StatusOr<UniqueFd> OpenWorkFolder(const sandbox::Sandbox& sandbox) {
  return OpenFolderAt(AT_FDCWD,
                      absl::StrCat("/proc/", sandbox.init_pid(), "/root", kInsideWorkDir));
}

// kInsideCacheDir within the work folder.
std::string CacheName() {
  absl::string_view name = kInsideCacheDir;
  absl::ConsumePrefix(&name, kInsideWorkDir);
  absl::ConsumePrefix(&name, "/");
  return std::string(name);
}

}  // namespace

void Evaluation::FillCaches() {
  const bool has_use = !IsCpu() && bench_->facts.has_device_frames &&
                       LooksCompiledAtRunTime(request_.candidate_source);
  if (!has_use)
    return;
  if (context_.jit_caches != nullptr)
    kept_cache_ = context_.jit_caches->Get(JitDigest());
  if (kept_cache_)
    return;
  const MonoTime start = MonoNow();
  absl::StatusOr<std::pair<UniqueFd, UniqueFd>> channel = CallChannel();
  if (!channel.ok() || !TakeRunner(Side::kCandidate, channel->second, &candidate_))
    return;
  channel->second.Reset();
  absl::StatusOr<UniqueFd> work = OpenWorkFolder(*candidate_->sandbox());
  while (!seen_ && !is_candidate_loaded_ && work.ok() && !doubtful_)
    Pump(MonoNow() + kGrace);
  bool is_called = false;
  if (!seen_ && is_candidate_loaded_) {
    is_jit_call_ = true;
    const milliseconds timeout(request_.policy.first_call_timeout_ms());
    const std::optional<nlohmann::json> answer =
        Ask({{"type", "jit_call"}, {"timeout_ms", timeout.count()}}, {channel->first.get()},
            timeout + kGrace);
    is_called = answer && TextOf(*answer, "outcome") == "done";
    is_jit_call_ = false;
  }
  candidate_->End(MonoNow() + (seen_ ? milliseconds(0) : kEndTimeout));
  if (candidate_->is_stuck())
    SeeStuckProcess();
  // Their answers must not reach the next runner.
  while (builds_running_ > 0 && !stop_.stop_requested())
    Pump(MonoNow() + kGrace);
  if (work.ok())
    cache_ = OpenFolderAt(work->get(), CacheName()).value_or(UniqueFd());
  if (is_called && cache_.is_open() && context_.jit_caches != nullptr)
    context_.jit_caches->Put(JitDigest(), cache_);
  ForgetFirstRunner();
  RecordInterval("jit", start);
}

std::string Evaluation::JitDigest() const {
  const NodeOptions& node = context_.node->options();
  return JitCacheKey{request_.candidate_source, request_.task.version,
                     node.toolchain.toolchain.Digest(), node.device.gpu_class, request_.arch}
      .Digest();
}

void Evaluation::ForgetFirstRunner() {
  // What failed here fails again where it counts.
  if (seen_ && seen_->side == Side::kCandidate)
    seen_.reset();
  doubtful_.reset();
  candidate_.reset();
  candidate_load_.reset();
  is_candidate_loaded_ = false;
  builds_asked_ = 0;
  for (const v1::BuildRecord& build : report_.late_builds)
    known_artifacts_.insert(build.artifact_sha256());
}

void Evaluation::HandCachesOn(const sandbox::Sandbox& to) {
  const UniqueFd& from = kept_cache_ ? kept_cache_->folder() : cache_;
  if (!from.is_open())
    return;
  const absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const UniqueFd work, OpenWorkFolder(to));
    ASSIGN_OR_RETURN(const UniqueFd cache, MakeFolderAt(work.get(), CacheName(), to.outside_uid()));
    FolderCopyOptions options;
    options.owner = to.outside_uid();
    options.skip = [this](absl::string_view name) {
      return MayHoldTimedChoice(name, request_.candidate_source);
    };
    return CopyFolder(from, cache, options).status();
  }();
  if (!status.ok())
    LogWarning(absl::StrCat("compile caches are not handed on: ", status.message()));
}

}  // namespace pike::gpu
