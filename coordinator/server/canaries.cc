#include "coordinator/server/canaries.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <absl/strings/str_cat.h>

#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "coordinator/rpc/evaluation_record.h"
#include "coordinator/rpc/validate.h"
#include "pike/v1/evaluation.pb.h"
#include "pike/v1/task.pb.h"

namespace pike::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSourceBytesMax = 64 << 10;
constexpr char kPrincipal[] = "pike";
constexpr uint64_t kWeightSeed = 1;

struct Canary {
  const char* name;
  VerdictKind expected;
  double speedup_min = 0;
  double speedup_max = 0;
  uint32_t call_timeout_ms = 10'000;
  bool is_in_first_round = false;
};

// The good one comes last: it finds what the others left behind. The bounds are wide, for a host
// that is busy elsewhere; `slow` does eight times the work.
constexpr Canary kCanaries[] = {
    {.name = "slow", .expected = VerdictKind::kValid, .speedup_max = 0.5},
    {.name = "wrong", .expected = VerdictKind::kIncorrect, .is_in_first_round = true},
    {.name = "crashing", .expected = VerdictKind::kRuntimeError},
    {.name = "hanging", .expected = VerdictKind::kTimeout, .call_timeout_ms = 1'000},
    {.name = "leaking", .expected = VerdictKind::kValid},
    {.name = "cheating", .expected = VerdictKind::kIncorrect, .is_in_first_round = true},
    {.name = "good",
     .expected = VerdictKind::kValid,
     .speedup_min = 0.25,
     .speedup_max = 4,
     .is_in_first_round = true},
};

// As little as shows the verdict.
absl::StatusOr<v1::Policy> PolicyOf(const Canary& canary) {
  v1::Policy policy;
  policy.set_warmup_calls(1);
  policy.set_timed_calls_max(20);
  policy.set_timed_ms_max(50);
  policy.set_build_timeout_ms(1'000);  // there are none
  policy.set_load_timeout_ms(60'000);
  policy.set_first_call_timeout_ms(60'000);
  policy.set_call_timeout_ms(canary.call_timeout_ms);
  return CompletePolicy(policy);
}

absl::StatusOr<std::string> Keep(const std::string& path, const BlobFolder& blobs) {
  const absl::StatusOr<std::string> source = ReadFile(path, kSourceBytesMax);
  if (!source.ok())
    return absl::Status(source.status().code(),
                        absl::StrCat("cannot read a canary: ", source.status().message(),
                                     "; install pike again, or go without by "
                                     "--canary-interval-s 0"));
  return blobs.Put(*source);
}

}  // namespace

std::string CanaryFolder() {
  const char* share_dir = std::getenv("PIKE_SHARE_DIR");  // NOLINT(concurrency-mt-unsafe)
  if (share_dir != nullptr && *share_dir != '\0')
    return absl::StrCat(share_dir, "/canaries");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = program.parent_path().parent_path() / "share/pike/canaries";
  return !error && fs::exists(installed, error) ? installed.string() : PIKE_SOURCE_CANARY_DIR;
}

absl::StatusOr<std::vector<CanarySpec>> LoadCanaries(const std::string& folder,
                                                     const BlobFolder& blobs) {
  v1::TaskRecord task;
  task.set_name("pike/canary");
  task.set_weight_seed(kWeightSeed);
  task.set_entry_reference("Model");
  ASSIGN_OR_RETURN(*task.mutable_source_sha256(), Keep(folder + "/task.py", blobs));
  task.set_version(TaskVersion(task));
  std::vector<CanarySpec> specs;
  for (const Canary& canary : kCanaries) {
    v1::EvaluationRecord record;
    ASSIGN_OR_RETURN(*record.mutable_candidate_sha256(),
                     Keep(absl::StrCat(folder, "/", canary.name, ".py"), blobs));
    record.set_principal(kPrincipal);
    record.set_task_version(task.version());
    record.set_task_name(task.name());
    record.set_candidate_name(canary.name);
    ASSIGN_OR_RETURN(*record.mutable_policy(), PolicyOf(canary));
    specs.push_back({.name = canary.name,
                     .payload = MakePayload(record, task),
                     .times = ToPolicyTimes(record.policy()),
                     .expected = canary.expected,
                     .speedup_min = canary.speedup_min,
                     .speedup_max = canary.speedup_max,
                     .is_in_first_round = canary.is_in_first_round});
  }
  return specs;
}

}  // namespace pike::coordinator
