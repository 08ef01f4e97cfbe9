#include "common/sandbox/memory_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "common/sandbox/cgroup.h"
#include "common/sandbox/process_tree.h"

namespace pike::sandbox {
namespace {

constexpr char kEventsFile[] = "/cgroup.events";
constexpr size_t kProcFileBytesMax = size_t{4} << 20;
// bubblewrap's monitor and init, which are in the cgroup too.
constexpr int64_t kOwnProcesses = 2;
// Who is killed at its limit may be this much below it: memory is charged in batches.
constexpr int64_t kLimitSlackBytes = int64_t{8} << 20;

// A cgroup of one sandbox, with whatever controllers its folder has.
class Cgroup {
 public:
  static absl::StatusOr<Cgroup> Make(CgroupFolder* parent, const ResourceLimits& limits) {
    ASSIGN_OR_RETURN(std::string folder, parent->Make());
    Cgroup cgroup(parent, std::move(folder));
    RETURN_IF_ERROR(cgroup.SetLimits(limits));
    return cgroup;
  }
  Cgroup(Cgroup&& other) noexcept
      : parent_(std::exchange(other.parent_, nullptr)),
        folder_(std::move(other.folder_)),
        memory_bytes_max_(other.memory_bytes_max_) {}
  Cgroup& operator=(Cgroup&&) = delete;
  ~Cgroup() {
    if (parent_ != nullptr)
      parent_->Remove(folder_);
  }

  absl::Status Add(pid_t pid) const {
    return WriteCgroupFile(folder_ + "/cgroup.procs", absl::StrCat(pid));
  }
  bool has_memory() const { return parent_->Has("memory"); }
  bool has_freezer() const { return parent_->is_v2(); }
  absl::Status SetFrozen(bool is_frozen) const {
    return WriteCgroupFile(folder_ + "/cgroup.freeze", is_frozen ? "1" : "0");
  }
  bool IsFrozen() const { return ReadCgroupField(folder_ + kEventsFile, "frozen").value_or(0) > 0; }
  UniqueFd OpenEvents() const {
    return UniqueFd(open((folder_ + kEventsFile).c_str(), O_RDONLY | O_CLOEXEC));
  }

  MemoryState Observe() const {
    const bool is_v2 = parent_->is_v2();
    const std::string counters = folder_ + (is_v2 ? "/memory.events" : "/memory.oom_control");
    const std::optional<int64_t> peak =
        ReadCgroupNumber(folder_ + (is_v2 ? "/memory.peak" : "/memory.max_usage_in_bytes"));
    MemoryState state = JudgeKills(
        ReadCgroupField(counters, "oom_kill"),
        is_v2 ? ReadCgroupField(counters, "oom") : LimitHitsByPeak(peak, memory_bytes_max_));
    state.peak_bytes = peak;
    return state;
  }

 private:
  Cgroup(CgroupFolder* parent, std::string folder) : parent_(parent), folder_(std::move(folder)) {}

  absl::Status SetLimits(const ResourceLimits& limits) {
    memory_bytes_max_ = limits.memory_bytes_max;
    if (parent_->Has("pids"))
      RETURN_IF_ERROR(WriteCgroupFile(folder_ + "/pids.max",
                                      absl::StrCat(limits.processes_max + kOwnProcesses)));
    if (!parent_->Has("memory") || !limits.memory_bytes_max)
      return absl::OkStatus();
    const std::string bytes = absl::StrCat(*limits.memory_bytes_max);
    if (parent_->is_v2()) {
      RETURN_IF_ERROR(WriteCgroupFile(folder_ + "/memory.max", bytes));
      return SetIfThere({{"/memory.swap.max", "0"}, {"/memory.oom.group", "1"}});
    }
    RETURN_IF_ERROR(WriteCgroupFile(folder_ + "/memory.limit_in_bytes", bytes));
    return SetIfThere({{"/memory.memsw.limit_in_bytes", bytes}, {"/memory.swappiness", "0"}});
  }

  // Files that some kernels do not have.
  absl::Status SetIfThere(const std::vector<std::pair<std::string, std::string>>& values) const {
    for (const auto& [file, value] : values) {
      if (access((folder_ + file).c_str(), W_OK) == 0)
        RETURN_IF_ERROR(WriteCgroupFile(folder_ + file, value));
    }
    return absl::OkStatus();
  }

  CgroupFolder* parent_;
  std::string folder_;
  std::optional<int64_t> memory_bytes_max_;
};

// The limits that cgroups hold, and memory by watching where they do not.
class TreeLimitImpl : public TreeLimit {
 public:
  TreeLimitImpl(std::vector<Cgroup> cgroups, std::optional<int64_t> memory_bytes_max)
      : cgroups_(std::move(cgroups)), memory_bytes_max_(memory_bytes_max) {}

  absl::Status Add(pid_t init_pid) override {
    root_ = init_pid;
    for (const Cgroup& cgroup : cgroups_)
      RETURN_IF_ERROR(cgroup.Add(init_pid));
    return absl::OkStatus();
  }

  MemoryState Observe() override {
    for (const Cgroup& cgroup : cgroups_) {
      if (cgroup.has_memory())
        return cgroup.Observe();
    }
    Watch();
    return watched_;
  }

  absl::Status SetFrozen(bool is_frozen) override {
    if (const Cgroup* cgroup = Freezer())
      return cgroup->SetFrozen(is_frozen);
    if (is_frozen)
      StopDescendants(root_);
    else
      ContinueDescendants(root_);
    return absl::OkStatus();
  }

  bool IsFrozen() override {
    const Cgroup* const cgroup = Freezer();
    return cgroup != nullptr ? cgroup->IsFrozen() : StopDescendants(root_);
  }

  UniqueFd OpenEvents() override {
    const Cgroup* const cgroup = Freezer();
    return cgroup != nullptr ? cgroup->OpenEvents() : UniqueFd();
  }

 private:
  const Cgroup* Freezer() const {
    for (const Cgroup& cgroup : cgroups_) {
      if (cgroup.has_freezer())
        return &cgroup;
    }
    return nullptr;
  }

  void Watch() {
    const std::vector<pid_t> tree = ProcessTree(root_);
    int64_t bytes = TreeMemoryBytes(tree, /*is_exact=*/false);
    // Shared pages were counted for each process: look closely before anyone is accused.
    const bool is_suspect = memory_bytes_max_ && bytes > *memory_bytes_max_;
    if (is_suspect && tree.size() > 1)
      bytes = TreeMemoryBytes(tree, /*is_exact=*/true);
    watched_.peak_bytes = std::max(watched_.peak_bytes.value_or(0), bytes);
    if (memory_bytes_max_ && bytes > *memory_bytes_max_)
      watched_.is_limit_hit = true;
  }

  const std::vector<Cgroup> cgroups_;
  const std::optional<int64_t> memory_bytes_max_;
  pid_t root_ = 0;
  MemoryState watched_;
};

class TreeLimiterImpl : public TreeLimiter {
 public:
  explicit TreeLimiterImpl(std::vector<std::unique_ptr<CgroupFolder>> folders)
      : folders_(std::move(folders)) {}

  absl::StatusOr<std::unique_ptr<TreeLimit>> NewLimit(const ResourceLimits& limits) override {
    std::vector<Cgroup> cgroups;
    for (const std::unique_ptr<CgroupFolder>& folder : folders_) {
      ASSIGN_OR_RETURN(Cgroup cgroup, Cgroup::Make(folder.get(), limits));
      cgroups.push_back(std::move(cgroup));
    }
    return std::make_unique<TreeLimitImpl>(std::move(cgroups), limits.memory_bytes_max);
  }

  bool has_memory_cgroup() const override { return Has("memory"); }
  bool has_pids_cgroup() const override { return Has("pids"); }
  bool has_freezer_cgroup() const override {
    return std::any_of(folders_.begin(), folders_.end(),
                       [](const auto& folder) { return folder->is_v2(); });
  }

 private:
  bool Has(absl::string_view controller) const {
    return std::any_of(folders_.begin(), folders_.end(),
                       [&](const auto& folder) { return folder->Has(controller); });
  }

  const std::vector<std::unique_ptr<CgroupFolder>> folders_;
};

// A process is in one cgroup of v2 only, so one folder must do for both controllers there, and even
// without any it can freeze; in v1 each has its own hierarchy.
std::vector<std::unique_ptr<CgroupFolder>> MakeFolders() {
  std::vector<std::unique_ptr<CgroupFolder>> folders;
  const absl::StatusOr<std::string> mounts = ReadFile("/proc/self/mounts", kProcFileBytesMax);
  const absl::StatusOr<std::string> own = ReadFile("/proc/self/cgroup", kProcFileBytesMax);
  if (!mounts.ok() || !own.ok())
    return folders;
  std::vector<CgroupParent> parents_v2;
  for (const CgroupParent& parent : CgroupParents("memory", *mounts, *own)) {
    if (parent.is_v2)
      parents_v2.push_back(parent);
  }
  for (const std::vector<std::string>& controllers :
       {std::vector<std::string>{"memory", "pids"}, std::vector<std::string>{"memory"},
        std::vector<std::string>{"pids"}, std::vector<std::string>{}}) {
    absl::StatusOr<std::unique_ptr<CgroupFolder>> folder =
        CgroupFolder::Create(parents_v2, controllers);
    if (folder.ok()) {
      folders.push_back(*std::move(folder));
      break;
    }
  }
  for (const std::string controller : {"memory", "pids"}) {
    if (std::any_of(folders.begin(), folders.end(),
                    [&](const auto& folder) { return folder->Has(controller); }))
      continue;
    std::vector<CgroupParent> parents = CgroupParents(controller, *mounts, *own);
    std::erase_if(parents, [](const CgroupParent& parent) { return parent.is_v2; });
    absl::StatusOr<std::unique_ptr<CgroupFolder>> folder =
        CgroupFolder::Create(parents, {controller});
    if (folder.ok())
      folders.push_back(*std::move(folder));
  }
  return folders;
}

}  // namespace

std::optional<int64_t> LimitHitsByPeak(std::optional<int64_t> peak_bytes,
                                       std::optional<int64_t> bytes_max) {
  if (!peak_bytes.has_value())
    return std::nullopt;
  return bytes_max.has_value() && *peak_bytes >= *bytes_max - kLimitSlackBytes ? 1 : 0;
}

MemoryState JudgeKills(std::optional<int64_t> oom_kills, std::optional<int64_t> limit_hits) {
  const bool is_killed = oom_kills.value_or(0) > 0;
  const bool is_at_limit = limit_hits.value_or(1) > 0;
  return {.is_limit_hit = is_killed && is_at_limit, .is_host_full = is_killed && !is_at_limit};
}

std::unique_ptr<TreeLimiter> TreeLimiter::Create(bool is_without_cgroups) {
  return std::make_unique<TreeLimiterImpl>(
      is_without_cgroups ? std::vector<std::unique_ptr<CgroupFolder>>() : MakeFolders());
}

}  // namespace pike::sandbox
